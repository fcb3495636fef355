#include "engine/model.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "engine/loader.h"
#include "gguf/gguf.h"

namespace nb = nanobind;
using namespace nb::literals;
using maglio::AttentionSpec;
using maglio::DeltaNetSpec;
using maglio::ExpertsSpec;
using maglio::GateActivation;
using maglio::GatedSpec;
using maglio::Gating;
using maglio::GgufFile;
using maglio::LayerSpec;
using maglio::Matrix;
using maglio::Model;
using maglio::ModelLoad;
using maglio::ModelSpec;
using maglio::ParallelSpec;
using maglio::RopeSpec;
using maglio::ShortConvSpec;
using maglio::Source;

namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

Row copy_row(const std::vector<float>& values) {
  float* copy = new float[values.size()];
  std::copy(values.begin(), values.end(), copy);
  nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  return Row(copy, {values.size()}, owner);
}

Row matrix_row(const Matrix& matrix, int row) {
  if (row < 0 || row >= matrix.rows()) throw nb::index_error("no such row");
  std::vector<float> values(static_cast<size_t>(matrix.cols()));
  matrix.unpack_row(row, values.data());
  return copy_row(values);
}

// Tells a Python function how far loading has come, and lets Ctrl-C end it. Called without the
// interpreter's lock.
maglio::Progress progress_of(const nb::object& function) {
  return [&function](uint64_t done, uint64_t all) {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!function.is_none()) function(done, all);
  };
}

std::shared_ptr<const Model> map_model(ModelLoad& load, int descriptor) {
  const nb::gil_scoped_release release;
  return load.map(descriptor);
}

void keep_model(const ModelLoad& load, int descriptor, const nb::object& progress) {
  const maglio::Progress report = progress_of(progress);
  const nb::gil_scoped_release release;
  load.keep(descriptor, report);
}

std::shared_ptr<const Model> read_model(ModelLoad& load, int threads, const nb::object& progress) {
  const maglio::Progress report = progress_of(progress);
  const nb::gil_scoped_release release;
  return load.read(threads, report);
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::exception<maglio::KeptWeightsError>(m, "KeptWeightsError", PyExc_ValueError);
  nb::enum_<GateActivation>(m, "GateActivation")
      .value("SILU", GateActivation::kSilu)
      .value("GELU_TANH", GateActivation::kGeluTanh)
      .value("CLAMPED_SWIGLU", GateActivation::kClampedSwiglu);
  nb::enum_<Gating>(m, "Gating")
      .value("SOFTMAX", Gating::kSoftmax)
      .value("SIGMOID", Gating::kSigmoid);

  nb::class_<RopeSpec>(m, "RopeSpec", "A rotation: the angle per position of each pair.")
      .def(
          "__init__",
          [](RopeSpec* self, const Doubles& inverse_frequencies, double magnitude) {
            const double* p = inverse_frequencies.data();
            new (self) RopeSpec{{p, p + inverse_frequencies.shape(0)}, magnitude};
          },
          "inverse_frequencies"_a, "magnitude"_a = 1.0);
  nb::class_<Source>(m, "Source", "Rows of a tensor that stand for a weight.")
      .def(
          "__init__",
          [](Source* self, std::string tensor, int first_row, int all_rows,
             std::vector<int32_t> rows) {
            new (self) Source{std::move(tensor), first_row, all_rows, std::move(rows)};
          },
          "tensor"_a, "first_row"_a = 0, "all_rows"_a = 0, "rows"_a = std::vector<int32_t>());
  nb::class_<AttentionSpec>(m, "AttentionSpec", "The shape of an attention sub-layer.")
      .def(nb::init<>())
      .def_rw("n_head", &AttentionSpec::n_head)
      .def_rw("n_kv_head", &AttentionSpec::n_kv_head)
      .def_rw("head_dim", &AttentionSpec::head_dim)
      .def_rw("scale", &AttentionSpec::scale)
      .def_rw("window", &AttentionSpec::window)
      .def_rw("rope", &AttentionSpec::rope)
      .def_rw("rotated", &AttentionSpec::rotated)
      .def_rw("cap", &AttentionSpec::cap)
      .def_rw("temperature", &AttentionSpec::temperature)
      .def_rw("temperature_length", &AttentionSpec::temperature_length)
      .def_rw("head_norms", &AttentionSpec::head_norms)
      .def_rw("wide_norms", &AttentionSpec::wide_norms)
      .def_rw("value_norms", &AttentionSpec::value_norms)
      .def_rw("paired_rows", &AttentionSpec::paired_rows)
      .def_rw("keys_as_values", &AttentionSpec::keys_as_values)
      .def_rw("kv_layer", &AttentionSpec::kv_layer)
      .def_rw("sinks", &AttentionSpec::sinks)
      .def_rw("gated", &AttentionSpec::gated);
  nb::class_<DeltaNetSpec>(m, "DeltaNetSpec", "The shape of a gated delta net.")
      .def(nb::init<>())
      .def_rw("n_key_head", &DeltaNetSpec::n_key_head)
      .def_rw("n_value_head", &DeltaNetSpec::n_value_head)
      .def_rw("head_dim", &DeltaNetSpec::head_dim)
      .def_rw("n_taps", &DeltaNetSpec::n_taps)
      .def_rw("grouped", &DeltaNetSpec::grouped);
  nb::class_<ShortConvSpec>(m, "ShortConvSpec", "The shape of a gated short convolution.")
      .def(nb::init<>())
      .def_rw("channels", &ShortConvSpec::channels)
      .def_rw("n_taps", &ShortConvSpec::n_taps);
  nb::class_<GatedSpec>(m, "GatedSpec", "The shape of a gated feed-forward sub-layer.")
      .def(nb::init<>())
      .def_rw("n_ff", &GatedSpec::n_ff)
      .def_rw("activation", &GatedSpec::activation);
  nb::class_<ExpertsSpec>(m, "ExpertsSpec", "The shape of a feed-forward sub-layer of experts.")
      .def(nb::init<>())
      .def_rw("n_ff", &ExpertsSpec::n_ff)
      .def_rw("n_expert", &ExpertsSpec::n_expert)
      .def_rw("n_used", &ExpertsSpec::n_used)
      .def_rw("n_group", &ExpertsSpec::n_group)
      .def_rw("n_group_used", &ExpertsSpec::n_group_used)
      .def_rw("gating", &ExpertsSpec::gating)
      .def_rw("normalize", &ExpertsSpec::normalize)
      .def_rw("scale", &ExpertsSpec::scale)
      .def_rw("n_shared_ff", &ExpertsSpec::n_shared_ff)
      .def_rw("weighs_shared", &ExpertsSpec::weighs_shared)
      .def_rw("norms_router", &ExpertsSpec::norms_router)
      .def_rw("activation", &ExpertsSpec::activation);
  nb::class_<ParallelSpec>(m, "ParallelSpec", "Two feed-forward sub-layers beside each other.")
      .def(nb::init<GatedSpec, ExpertsSpec>(), "dense"_a, "experts"_a)
      .def_ro("dense", &ParallelSpec::dense)
      .def_ro("experts", &ParallelSpec::experts);
  nb::class_<LayerSpec>(m, "LayerSpec", "The shape of a layer.")
      .def(nb::init<>())
      .def_rw("mixer", &LayerSpec::mixer)
      .def_rw("feed_forward", &LayerSpec::feed_forward)
      .def_rw("pre_norms", &LayerSpec::pre_norms)
      .def_rw("post_norms", &LayerSpec::post_norms)
      .def_rw("output_scale", &LayerSpec::output_scale)
      .def_rw("sources", &LayerSpec::sources);
  nb::class_<ModelSpec>(m, "ModelSpec", "The shape of a model.")
      .def(nb::init<>())
      .def_rw("architecture", &ModelSpec::architecture)
      .def_rw("n_embd", &ModelSpec::n_embd)
      .def_rw("n_vocab", &ModelSpec::n_vocab)
      .def_rw("norm_eps", &ModelSpec::norm_eps)
      .def_rw("embedding_scale", &ModelSpec::embedding_scale)
      .def_rw("residual_scale", &ModelSpec::residual_scale)
      .def_rw("n_embd_per_layer", &ModelSpec::n_embd_per_layer)
      .def_rw("logit_scale", &ModelSpec::logit_scale)
      .def_rw("logit_cap", &ModelSpec::logit_cap)
      .def_rw("ropes", &ModelSpec::ropes)
      .def_rw("layers", &ModelSpec::layers)
      .def_rw("sources", &ModelSpec::sources)
      .def_prop_ro("rotations", &ModelSpec::rotations, "64 bits of all rotations.")
      .def("check", &ModelSpec::check, "What the engine cannot do, or an empty string.");

  nb::class_<Matrix>(m, "Matrix", "A repacked weight matrix.")
      .def_prop_ro("rows", &Matrix::rows)
      .def_prop_ro("cols", &Matrix::cols)
      .def_prop_ro("bytes", &Matrix::bytes)
      .def("row", &matrix_row, "index"_a, "One row as float32, as the engine sees it.");
  m.def(
      "read_matrix",
      [](const GgufFile& file, const std::string& name) {
        return maglio::load_matrix(file, name, 1);
      },
      "file"_a, "name"_a, "Repacks one tensor of a file.");
  m.def(
      "read_vector",
      [](const GgufFile& file, const std::string& name) {
        return copy_row(maglio::load_vector(file, name));
      },
      "file"_a, "name"_a, "The floats of a tensor of one dimension.");

  nb::class_<Model>(m, "Model", nb::is_weak_referenceable(), "Weights, repacked for the engine.")
      .def_ro("spec", &Model::spec)
      .def_prop_ro("weight_bytes", &Model::weight_bytes)
      .def_ro("is_mapped", &Model::is_mapped, "Whether the weights are pages of a file.");
  nb::class_<ModelLoad>(m, "ModelLoad", "A model on its way into memory.")
      .def(nb::init<std::shared_ptr<const GgufFile>, const ModelSpec&,
                    const std::set<std::string>&>(),
           "file"_a, "spec"_a, "known"_a,
           "Finds the weights that ``spec`` describes; ``known`` names tensors read by the caller.")
      .def_prop_ro("weight_bytes", &ModelLoad::weight_bytes, "Bytes of the repacked matrices.")
      .def("cache_bytes", &ModelLoad::cache_bytes, "positions"_a, "type"_a,
           "Bytes of a cache of so many positions.")
      .def(
          "read", &read_model, "threads"_a, "progress"_a = nb::none(),
          nb::sig("def read(self, threads: int, "
                  "progress: collections.abc.Callable[[int, int], object] | None = None) -> Model"),
          "Reads and repacks the weights, once; ``progress`` is told bytes done and in all.")
      .def("map", &map_model, "descriptor"_a,
           "Maps the weights from a file that ``keep`` wrote; raises KeptWeightsError if they are "
           "not of this model.")
      .def_prop_ro("kept_bytes", &ModelLoad::kept_bytes, "Bytes of the file that ``keep`` writes.")
      .def("keep", &keep_model, "descriptor"_a, "progress"_a = nb::none(),
           nb::sig("def keep(self, descriptor: int, "
                   "progress: collections.abc.Callable[[int, int], object] | None = None) -> None"),
           "Writes the weights that were read to an open, empty file.");
}

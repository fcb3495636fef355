#include "engine/model.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "engine/model_loader.h"
#include "gguf/gguf.h"

namespace nb = nanobind;
using namespace nb::literals;
using maglio::GateActivation;
using maglio::GgufFile;
using maglio::Matrix;
using maglio::Model;
using maglio::ModelSpec;

namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
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

}  // namespace

void bind_model(nb::module_& m) {
  nb::enum_<GateActivation>(m, "GateActivation")
      .value("SILU", GateActivation::kSilu)
      .value("GELU_TANH", GateActivation::kGeluTanh);

  nb::class_<ModelSpec>(m, "ModelSpec", "Dimensions and switches of a model.")
      .def(nb::init<>())
      .def_rw("n_layer", &ModelSpec::n_layer)
      .def_rw("n_embd", &ModelSpec::n_embd)
      .def_rw("n_head", &ModelSpec::n_head)
      .def_rw("n_kv_head", &ModelSpec::n_kv_head)
      .def_rw("head_dim", &ModelSpec::head_dim)
      .def_rw("n_ff", &ModelSpec::n_ff)
      .def_rw("n_vocab", &ModelSpec::n_vocab)
      .def_rw("norm_eps", &ModelSpec::norm_eps)
      .def_rw("attention_scale", &ModelSpec::attention_scale)
      .def_rw("embedding_scale", &ModelSpec::embedding_scale)
      .def_rw("activation", &ModelSpec::activation)
      .def("check", &ModelSpec::check, "What the engine cannot do, or an empty string.");

  nb::class_<Matrix>(m, "Matrix", "A repacked weight matrix.")
      .def_prop_ro("rows", &Matrix::rows)
      .def_prop_ro("cols", &Matrix::cols)
      .def_prop_ro("bytes", &Matrix::bytes)
      .def("row", &matrix_row, "index"_a, "One row as float32, as the engine sees it.");
  m.def(
      "read_matrix",
      [](const GgufFile& file, const std::string& name) {
        return maglio::load_matrix(file, name, {}, 1);
      },
      "file"_a, "name"_a, "Repacks one tensor of a file.");

  nb::class_<Model>(m, "Model", "Weights, repacked for the engine.")
      .def(nb::new_([](const ModelSpec& spec) { return maglio::make_model(spec); }), "spec"_a)
      .def(
          "add_rope",
          [](Model& model, const Doubles& inverse_frequencies) {
            const double* p = inverse_frequencies.data();
            model.ropes.push_back({{p, p + inverse_frequencies.shape(0)}});
            return static_cast<int>(model.ropes.size()) - 1;
          },
          "inverse_frequencies"_a, "Defines a rotation and returns its index.")
      .def("set_attention_kind", &maglio::set_attention_kind, "layer"_a, "window"_a, "rope"_a)
      .def(
          "load_vector",
          [](Model& model, const GgufFile& file, const std::string& tensor, int layer,
             const std::string& role) { maglio::load_vector(model, file, tensor, layer, role); },
          "file"_a, "tensor"_a, "layer"_a, "role"_a)
      .def(
          "load_matrix",
          [](Model& model, const GgufFile& file, const std::string& tensor, int layer,
             const std::string& role, const Order& order, int threads) {
            nb::gil_scoped_release release;
            maglio::load_weight(model, file, tensor, layer, role,
                                {order.data(), order.data() + order.shape(0)}, threads);
          },
          "file"_a, "tensor"_a, "layer"_a, "role"_a, "order"_a, "threads"_a)
      .def_ro("spec", &Model::spec)
      .def_prop_ro("weight_bytes", &Model::weight_bytes)
      .def("check", &Model::check, "What is wrong with the model, or an empty string.");
}

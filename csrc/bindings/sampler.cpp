#include "sample/sampler.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "bindings.h"
#include "sample/philox.h"
#include "sample/topk.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<nb::numpy, int32_t, nb::ndim<2>>;

int32_t sample(maglio::Sampler& sampler, const Row& row, uint64_t position) {
  if (row.shape(0) != sampler.vocab()) {
    throw std::invalid_argument("row holds " + std::to_string(row.shape(0)) +
                                " logits, must hold " + std::to_string(sampler.vocab()) +
                                " (n_vocab)");
  }
  nb::gil_scoped_release unlocked;
  return sampler.sample(row.data(), position);
}

Ids topk_rows(const Rows& rows, size_t count) {
  auto ids = std::make_unique<int32_t[]>(rows.shape(0) * count);
  {
    nb::gil_scoped_release unlocked;
    maglio::topk_rows(rows.data(), rows.shape(0), rows.shape(1), count, ids.get());
  }
  int32_t* const data = ids.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<int32_t*>(p); });
  return Ids(data, {rows.shape(0), count}, owner);
}

void translate_invalid_logits(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const maglio::InvalidLogits& invalid) {
    const nb::object type = nb::module_::import_("maglio.errors").attr("InvalidLogitsError");
    PyErr_SetString(type.ptr(), invalid.what());
  }
}

maglio::Sampler* make_sampler(size_t n_vocab, double temperature, int64_t top_k, double top_p,
                              double min_p, double repeat_penalty, double frequency_penalty,
                              double presence_penalty, int64_t penalty_last_n,
                              std::vector<std::pair<int32_t, double>> logit_bias, uint64_t seed) {
  return new maglio::Sampler({temperature, top_k, top_p, min_p, repeat_penalty, frequency_penalty,
                              presence_penalty, penalty_last_n, std::move(logit_bias), seed},
                             n_vocab);
}

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::register_exception_translator(translate_invalid_logits);

  nb::class_<maglio::Sampler>(m, "Sampler")
      .def(nb::new_(&make_sampler), "n_vocab"_a, nb::kw_only(), "temperature"_a, "top_k"_a,
           "top_p"_a, "min_p"_a, "repeat_penalty"_a, "frequency_penalty"_a, "presence_penalty"_a,
           "penalty_last_n"_a, "logit_bias"_a, "seed"_a)
      .def(
          "extend",
          [](maglio::Sampler& sampler, const std::vector<int32_t>& tokens) {
            sampler.extend(tokens.data(), tokens.size());
          },
          "tokens"_a)
      .def("truncate", &maglio::Sampler::truncate, "length"_a)
      .def("sample", &sample, "row"_a.noconvert(), "position"_a)
      .def("check", &maglio::Sampler::check)
      .def_prop_ro("n_vocab", &maglio::Sampler::vocab)
      .def_prop_ro("length", &maglio::Sampler::length);

  m.def("topk_rows", &topk_rows, "rows"_a.noconvert(), "count"_a,
        "Ids of the `count` largest logits of each row, int32 (k, count), best first, ties to the "
        "lowest id, NaN last. Takes float32 (k, vocab).");
  m.def("philox4x32", &maglio::philox4x32, "counter"_a, "key"_a,
        "Ten rounds of Philox4x32 on a counter of four words under a key of two.");
}

#include "sample/sampler.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings.h"
#include "sample/mass.h"
#include "sample/philox.h"
#include "sample/topk.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<nb::numpy, int32_t, nb::ndim<2>>;

void check_shapes(const maglio::Sampler& sampler, const Row& row, const std::optional<Mask>& mask) {
  if (row.shape(0) != sampler.vocab()) {
    throw std::invalid_argument("row holds " + std::to_string(row.shape(0)) +
                                " logits, must hold " + std::to_string(sampler.vocab()) +
                                " (n_vocab)");
  }
  const size_t words = maglio::mask_words(sampler.vocab());
  if (mask && mask->shape(0) != words) {
    throw std::invalid_argument("mask holds " + std::to_string(mask->shape(0)) +
                                " words, must hold " + std::to_string(words) +
                                " (a bit for each token)");
  }
}

const uint32_t* words_of(const std::optional<Mask>& mask) {
  return mask ? reinterpret_cast<const uint32_t*>(mask->data()) : nullptr;
}

int32_t sample(maglio::Sampler& sampler, const Row& row, uint64_t position,
               const std::optional<Mask>& mask) {
  check_shapes(sampler, row, mask);
  const uint32_t* const words = words_of(mask);
  nb::gil_scoped_release unlocked;
  return sampler.sample(row.data(), position, words);
}

bool stands(maglio::Sampler& sampler, int32_t token, const Row& row, uint64_t position, float drift,
            const std::optional<Mask>& mask) {
  check_shapes(sampler, row, mask);
  const uint32_t* const words = words_of(mask);
  nb::gil_scoped_release unlocked;
  return sampler.stands(token, row.data(), position, drift, words);
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

double log_mass(const Row& row) {
  nb::gil_scoped_release unlocked;
  return maglio::log_mass(row.data(), row.shape(0));
}

void translate_invalid_logits(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const maglio::InvalidLogits& invalid) {
    const nb::object type = nb::module_::import_("maglio.errors").attr("InvalidLogitsError");
    PyErr_SetString(type.ptr(), invalid.what());
  }
}

struct StepName {
  const char* name;
  maglio::Step step;
};

constexpr StepName kSteps[] = {
    {"logit_bias", maglio::Step::kLogitBias},
    {"penalties", maglio::Step::kPenalties},
    {"dry", maglio::Step::kDry},
    {"temperature", maglio::Step::kTemperature},
    {"top_n_sigma", maglio::Step::kTopNSigma},
    {"top_k", maglio::Step::kTopK},
    {"typical_p", maglio::Step::kTypicalP},
    {"top_p", maglio::Step::kTopP},
    {"min_p", maglio::Step::kMinP},
    {"xtc", maglio::Step::kXtc},
};

std::vector<std::string> order_of(const maglio::SamplingParams& params) {
  std::vector<std::string> names;
  for (const maglio::Step step : params.order) {
    for (const StepName& known : kSteps) {
      if (known.step == step) names.push_back(known.name);
    }
  }
  return names;
}

void set_order(maglio::SamplingParams& params, const std::vector<std::string>& names) {
  std::vector<maglio::Step> order;
  for (const std::string& name : names) {
    for (const StepName& known : kSteps) {
      if (known.name == name) order.push_back(known.step);
    }
  }
  if (order.size() != names.size()) throw std::invalid_argument("order names an unknown step");
  params.order = std::move(order);
}

void bind_params(nb::module_& m) {
  using Params = maglio::SamplingParams;
  nb::class_<Params>(m, "SamplerParams")
      .def(nb::init<>())
      .def_prop_rw("order", &order_of, &set_order)
      .def_rw("temperature", &Params::temperature)
      .def_rw("top_n_sigma", &Params::top_n_sigma)
      .def_rw("top_k", &Params::top_k)
      .def_rw("typical_p", &Params::typical_p)
      .def_rw("top_p", &Params::top_p)
      .def_rw("min_p", &Params::min_p)
      .def_rw("xtc_probability", &Params::xtc_probability)
      .def_rw("xtc_threshold", &Params::xtc_threshold)
      .def_rw("min_keep", &Params::min_keep)
      .def_rw("repeat_penalty", &Params::repeat_penalty)
      .def_rw("penalty_last_n", &Params::penalty_last_n)
      .def_rw("frequency_penalty", &Params::frequency_penalty)
      .def_rw("presence_penalty", &Params::presence_penalty)
      .def_prop_rw(
          "dry_multiplier", [](const Params& params) { return params.dry.multiplier; },
          [](Params& params, double value) { params.dry.multiplier = value; })
      .def_prop_rw(
          "dry_base", [](const Params& params) { return params.dry.base; },
          [](Params& params, double value) { params.dry.base = value; })
      .def_prop_rw(
          "dry_allowed_length", [](const Params& params) { return params.dry.allowed_length; },
          [](Params& params, int64_t value) { params.dry.allowed_length = value; })
      .def_prop_rw(
          "dry_penalty_last_n", [](const Params& params) { return params.dry.last_n; },
          [](Params& params, int64_t value) { params.dry.last_n = value; })
      .def_rw("dry_breakers", &Params::dry_breakers)
      .def_rw("exempt", &Params::exempt)
      .def_rw("logit_bias", &Params::logit_bias)
      .def_rw("seed", &Params::seed);
}

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::register_exception_translator(translate_invalid_logits);

  bind_params(m);
  nb::class_<maglio::Sampler>(m, "Sampler")
      .def(nb::init<maglio::SamplingParams, size_t>(), "params"_a, "n_vocab"_a)
      .def(
          "extend",
          [](maglio::Sampler& sampler, const std::vector<int32_t>& tokens) {
            sampler.extend(tokens.data(), tokens.size());
          },
          "tokens"_a)
      .def("begin_answer", &maglio::Sampler::begin_answer, "index"_a)
      .def("truncate", &maglio::Sampler::truncate, "length"_a)
      .def("sample", &sample, "row"_a.noconvert(), "position"_a,
           "mask"_a.noconvert().none() = nb::none())
      .def("stands", &stands, "token"_a, "row"_a.noconvert(), "position"_a, "drift"_a,
           "mask"_a.noconvert().none() = nb::none())
      .def("check", &maglio::Sampler::check)
      .def_prop_ro("n_vocab", &maglio::Sampler::vocab)
      .def_prop_ro("length", &maglio::Sampler::length);

  m.def("topk_rows", &topk_rows, "rows"_a.noconvert(), "count"_a,
        "Ids of the `count` largest logits of each row, int32 (k, count), best first, ties to the "
        "lowest id, NaN last. Takes float32 (k, vocab).");
  m.def("log_mass", &log_mass, "row"_a.noconvert(),
        "Natural logarithm of the sum of exp(logit) over a float32 row: a token's log-probability "
        "is its logit less this. NaN or infinite where the row cannot be sampled.");
  m.def("philox4x32", &maglio::philox4x32, "counter"_a, "key"_a,
        "Ten rounds of Philox4x32 on a counter of four words under a key of two.");
}

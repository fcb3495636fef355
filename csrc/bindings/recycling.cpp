#include "draft/recycling.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <array>
#include <stdexcept>

#include "bindings.h"
#include "guarded.h"

namespace nb = nanobind;
using namespace nb::literals;
using maglio::Recycling;

namespace {

using Tokens = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Candidates = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Table = bindings::Guarded<Recycling>;

void observe(Table& self, const Tokens& tokens) {
  self.release_gil([&](Recycling& table) { table.observe(tokens.data(), tokens.shape(0)); });
}

void observe_rows(Table& self, const Tokens& tokens, const Candidates& candidates) {
  if (candidates.shape(0) != tokens.shape(0)) {
    throw std::invalid_argument("there are " + std::to_string(candidates.shape(0)) +
                                " rows of candidates for " + std::to_string(tokens.shape(0)) +
                                " tokens");
  }
  self.release_gil([&](Recycling& table) {
    table.observe_rows(tokens.data(), candidates.data(), tokens.shape(0), candidates.shape(1));
  });
}

nb::typed<nb::list, int> topk_of(const Table& self, int32_t token) {
  std::array<int32_t, Recycling::kWidth> candidates;
  const size_t count =
      self.read([&](const Recycling& table) { return table.topk_of(token, candidates.data()); });
  nb::typed<nb::list, int> out;
  for (size_t i = 0; i < count; ++i) out.append(candidates[i]);
  return out;
}

}  // namespace

void bind_recycling(nb::module_& m) {
  nb::class_<Table>(m, "Recycling", "Which token followed which, as the latest rows said.")
      .def(nb::init<size_t, size_t>(), "n_vocab"_a, nb::kw_only(), "pair_slots"_a,
           "``pair_slots``: size of the table keyed by two tokens, 0 or a power of two.")
      .def("observe", &observe, "tokens"_a,
           "The stream goes on with an int32 array of tokens. ``ValueError``, and no change, for "
           "an id outside the vocabulary.")
      .def("observe_rows", &observe_rows, "tokens"_a, "candidates"_a,
           "Learn that ``candidates[i]``, int32 (k, n) best first, may follow ``tokens[i]``.")
      .def(
          "restart",
          [](Table& self) { self.release_gil([](Recycling& table) { table.restart(); }); },
          "The stream is another one from here on; what was learnt stays.")
      .def("draft", &bindings::draft<Recycling>, "limit"_a,
           "At most ``limit`` tokens: the chain of best successors after the stream.")
      .def("topk_of", &topk_of, "token"_a, "At most 8 candidates after ``token``, best first.")
      .def("check", bindings::getter(&Recycling::check),
           "What is wrong with the tables; empty if nothing.")
      .def_prop_ro("n_vocab", bindings::getter(&Recycling::vocab))
      .def_prop_ro("pair_slots", bindings::getter(&Recycling::pair_slots))
      .def_prop_ro("memory_bytes", bindings::getter(&Recycling::memory_bytes), "Bytes reserved.")
      .def_ro_static("WIDTH", &Recycling::kWidth, "Candidates kept per token.");
}

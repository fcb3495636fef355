#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "text/special_tokens.h"
#include "text/spm.h"

namespace nb = nanobind;
using maglio::Fragment;
using maglio::SpecialToken;
using maglio::SpecialTokens;
using maglio::SpmModel;

namespace {

template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::vector<T> to_vector(const Array<T>& array) {
  return {array.data(), array.data() + array.size()};
}

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

void bind_special_tokens(nb::module_& m) {
  nb::class_<SpecialTokens>(m, "SpecialTokens",
                            "Cuts special tokens out of a text, longer ones first.")
      .def(
          "__init__",
          [](SpecialTokens* self,
             const std::vector<std::tuple<nb::bytes, std::int32_t, bool, bool, bool>>& t) {
            std::vector<SpecialToken> tokens;
            for (const auto& [text, id, control, left, right] : t) {
              tokens.push_back({std::string(view(text)), id, control, left, right});
            }
            new (self) SpecialTokens(std::move(tokens));
          },
          nb::arg("tokens"),
          "``tokens``: (text, id, control, strips_left, strips_right) each. Raises ValueError for "
          "an empty or repeated text.")
      .def(
          "split",
          [](const SpecialTokens& self, const nb::bytes& text, bool parse_control) {
            std::vector<Fragment> fragments;
            {
              const std::string_view bytes = view(text);
              const nb::gil_scoped_release release;
              fragments = self.split(bytes, parse_control);
            }
            std::vector<std::tuple<std::size_t, std::size_t, std::int32_t>> result;
            for (const Fragment& f : fragments) result.emplace_back(f.begin, f.end, f.token);
            return result;
          },
          nb::arg("text"), nb::arg("parse_control"),
          "Fragments (begin, end, token) that cover ``text`` in order; token -1 is plain text.");
}

void bind_spm(nb::module_& m) {
  nb::class_<SpmModel>(m, "SpmModel", "SentencePiece-style merging by token score.")
      .def(
          "__init__",
          [](SpmModel* self, const nb::bytes& blob, Array<std::int64_t> offsets,
             Array<float> scores, Array<std::int32_t> byte_ids) {
            if (byte_ids.size() != 256) throw nb::value_error("byte_ids needs 256 entries");
            std::array<std::int32_t, 256> ids{};
            std::copy_n(byte_ids.data(), ids.size(), ids.begin());
            new (self)
                SpmModel(std::string(view(blob)), to_vector(offsets), to_vector(scores), ids);
          },
          nb::arg("blob"), nb::arg("offsets"), nb::arg("scores"), nb::arg("byte_ids"),
          "Token i is ``blob[offsets[i]:offsets[i + 1]]``. Raises ValueError if the parts do not "
          "fit together.")
      .def(
          "encode",
          [](const SpmModel& self, const nb::bytes& text) {
            const std::string_view bytes = view(text);
            nb::gil_scoped_release release;
            return self.encode(bytes);
          },
          nb::arg("text"), "Token ids of ``text``, whose spaces are escaped already.");
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_special_tokens(m);
  bind_spm(m);
}

#include "engine/spec.h"

#include <initializer_list>

namespace maglio {
namespace {

constexpr int kMaxDimension = 1 << 20;
constexpr size_t kMaxLayers = 4096;

std::string check_dimension(const char* name, int64_t value, int multiple, int64_t maximum) {
  if (value > 0 && value <= maximum && value % multiple == 0) return "";
  const std::string what = multiple > 1 ? "multiples of " + std::to_string(multiple) : "values";
  return std::string(name) + " is " + std::to_string(value) + "; " + what + " up to " +
         std::to_string(maximum) + " are supported";
}

// The first complaint among several checks.
std::string first_of(std::initializer_list<std::string> complaints) {
  for (const std::string& complaint : complaints) {
    if (!complaint.empty()) return complaint;
  }
  return "";
}

}  // namespace

std::string AttentionSpec::check(const std::vector<RopeSpec>& ropes) const {
  if (window < 0) return "a sliding window is negative";
  if (rope < 0 || static_cast<size_t>(rope) >= ropes.size()) return "a rotation is not defined";
  const std::string complaint = first_of({
      check_dimension("the head dimension", head_dim, 2, kMaxHeadDim),
      check_dimension("the number of key/value heads", n_kv_head, 1, kMaxDimension),
      check_dimension("the number of query heads", n_head, n_kv_head > 0 ? n_kv_head : 1,
                      kMaxDimension),
      check_dimension("the width of all query heads", static_cast<int64_t>(n_head) * head_dim, 1,
                      kMaxDimension),
  });
  if (!complaint.empty()) return complaint;
  const size_t rotated = 2 * ropes[static_cast<size_t>(rope)].inverse_frequencies.size();
  return rotated == static_cast<size_t>(head_dim) ? ""
                                                  : "a rotation does not cover the head dimension";
}

std::string GatedSpec::check() const {
  return check_dimension("the feed-forward length", n_ff, 1, kMaxDimension);
}

std::string ModelSpec::check() const {
  std::string complaint = first_of({
      check_dimension("the number of layers", static_cast<int64_t>(layers.size()), 1, kMaxLayers),
      check_dimension("the vocabulary", n_vocab, 1, kMaxDimension),
      check_dimension("the embedding length", n_embd, 1, kMaxDimension),
  });
  for (size_t i = 0; i < layers.size() && complaint.empty(); ++i) {
    complaint = first_of({
        std::visit([this](const auto& mixer) { return mixer.check(ropes); }, layers[i].mixer),
        std::visit([](const auto& ffn) { return ffn.check(); }, layers[i].feed_forward),
    });
    if (!complaint.empty()) complaint = "layer " + std::to_string(i) + ": " + complaint;
  }
  return complaint;
}

}  // namespace maglio

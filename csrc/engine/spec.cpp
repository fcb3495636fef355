#include "engine/spec.h"

#include <initializer_list>

#include "checksum/xxhash64.h"

namespace maglio {
namespace {

constexpr int kMaxDimension = 1 << 20;
constexpr size_t kMaxLayers = 4096;
constexpr int kMaxExperts = 1024;  // all rows of all of them can be counted in 31 bits

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
  if (rope != kNoRope && (rope < 0 || static_cast<size_t>(rope) >= ropes.size())) {
    return "a rotation is not defined";
  }
  if (head_norms && wide_norms) return "queries are normed twice";
  if (gated && (wide_norms || paired_rows)) return "queries with gates are normed or paired";
  if (temperature != 0 && temperature_length < 1) return "a temperature has no length";
  const std::string complaint = first_of({
      check_dimension("the head dimension", head_dim, 2, kMaxHeadDim),
      check_dimension("the number of key/value heads", n_kv_head, 1, kMaxDimension),
      check_dimension("the number of query heads", n_head, n_kv_head > 0 ? n_kv_head : 1,
                      kMaxDimension),
      check_dimension("the width of all query heads", static_cast<int64_t>(n_head) * head_dim, 1,
                      kMaxDimension),
  });
  if (!complaint.empty()) return complaint;
  if (wide_norms && padded_heads()) {
    return "heads of " + std::to_string(head_dim) +
           " values that are normed together are not supported; multiples of 16 are";
  }
  if (keys_as_values && (wide_norms || paired_rows)) {
    return "keys that are normed together, or in the order of pairs, cannot serve as values";
  }
  if (rotated < 0 || rotated > head_dim) return "more values are rotated than a head has";
  if (rope == kNoRope) return "";
  const size_t covered = 2 * ropes[static_cast<size_t>(rope)].inverse_frequencies.size();
  return covered == static_cast<size_t>(rotated_values())
             ? ""
             : "a rotation does not cover the head dimension";
}

std::string DeltaNetSpec::check() const {
  return first_of({
      check_dimension("the head dimension of a delta net", head_dim, 16, kMaxHeadDim),
      check_dimension("the number of key heads of a delta net", n_key_head, 1, kMaxDimension),
      check_dimension("the number of value heads of a delta net", n_value_head,
                      n_key_head > 0 ? n_key_head : 1, kMaxDimension),
      check_dimension(
          "the number of channels of a delta net",
          static_cast<int64_t>(head_dim) * (2 * static_cast<int64_t>(n_key_head) + n_value_head), 1,
          kMaxDimension),
      check_dimension("the number of taps of a convolution", n_taps, 1, kMaxTaps),
  });
}

std::string ShortConvSpec::check() const {
  return first_of({
      check_dimension("the number of channels of a convolution", channels, 16, kMaxDimension),
      check_dimension("the number of taps of a convolution", n_taps, 1, kMaxTaps),
  });
}

std::string GatedSpec::check() const {
  return check_dimension("the feed-forward length", n_ff, 1, kMaxDimension);
}

std::string ExpertsSpec::check() const {
  const std::string complaint = first_of({
      check_dimension("the feed-forward length of an expert", n_ff, 32, kMaxDimension),
      check_dimension("the number of experts", n_expert, 1, kMaxExperts),
      check_dimension("the number of experts used", n_used, 1, n_expert),
      check_dimension("the number of groups of experts", n_group, 1, n_expert),
      check_dimension("the number of groups used", n_group_used, 1, n_group),
  });
  if (!complaint.empty()) return complaint;
  if (n_expert % n_group != 0) return "groups of experts are not of equal size";
  if (n_used > n_expert / n_group * n_group_used) {
    return "a row takes more experts than its groups have";
  }
  if (n_shared_ff == 0) return weighs_shared ? "a shared expert has no length" : "";
  return check_dimension("the feed-forward length of the shared expert", n_shared_ff, 1,
                         kMaxDimension);
}

namespace {

std::string check_mixer(const AttentionSpec& spec, const std::vector<RopeSpec>& ropes) {
  return spec.check(ropes);
}

template <typename Spec>
std::string check_mixer(const Spec& spec, const std::vector<RopeSpec>&) {
  return spec.check();
}

}  // namespace

std::string ParallelSpec::check() const { return first_of({dense.check(), experts.check()}); }

std::string ModelSpec::check_shared_keys(size_t layer) const {
  const auto* reader = std::get_if<AttentionSpec>(&layers[layer].mixer);
  if (reader == nullptr || reader->owns_keys()) return "";
  if (reader->kv_layer < 0 || static_cast<size_t>(reader->kv_layer) >= layer) {
    return "it reads the keys of a layer that is not before it";
  }
  const auto* owner =
      std::get_if<AttentionSpec>(&layers[static_cast<size_t>(reader->kv_layer)].mixer);
  const bool owns = owner != nullptr && owner->owns_keys();
  if (owns && owner->n_kv_head == reader->n_kv_head && owner->head_dim == reader->head_dim) {
    return "";
  }
  return "it reads the keys of layer " + std::to_string(reader->kv_layer) + ", which has " +
         (owns ? "heads of another shape" : "none");
}

uint64_t ModelSpec::rotations() const {
  uint64_t sum = 0;
  for (const RopeSpec& rope : ropes) {
    const std::vector<double>& inverse = rope.inverse_frequencies;
    sum = xxhash64(inverse.data(), inverse.size() * sizeof(double), sum);
    sum = xxhash64(&rope.magnitude, sizeof(rope.magnitude), sum);
  }
  return sum;
}

std::string ModelSpec::check() const {
  std::string complaint = first_of({
      check_dimension("the number of layers", static_cast<int64_t>(layers.size()), 1, kMaxLayers),
      check_dimension("the vocabulary", n_vocab, 1, kMaxDimension),
      check_dimension("the embedding length", n_embd, 1, kMaxDimension),
  });
  if (complaint.empty() && n_embd_per_layer != 0) {
    complaint = first_of({
        check_dimension("the embedding length of a layer", n_embd_per_layer, 32, kMaxDimension),
        check_dimension("the embedding length of all layers", n_embd_all_layers(), 32,
                        kMaxDimension),
    });
  }
  for (size_t i = 0; i < layers.size() && complaint.empty(); ++i) {
    complaint = first_of({
        std::visit([this](const auto& mixer) { return check_mixer(mixer, ropes); },
                   layers[i].mixer),
        check_shared_keys(i),
        std::visit([](const auto& ffn) { return ffn.check(); }, layers[i].feed_forward),
        std::holds_alternative<GatedSpec>(layers[i].feed_forward)
            ? ""
            : check_dimension("the embedding length, with experts,", n_embd, 32, kMaxDimension),
    });
    if (!complaint.empty()) complaint = "layer " + std::to_string(i) + ": " + complaint;
  }
  bool attends = false;
  for (const LayerSpec& layer : layers) {
    attends = attends || std::holds_alternative<AttentionSpec>(layer.mixer);
  }
  if (complaint.empty() && !attends) return "models without attention are not supported";
  return complaint;
}

}  // namespace maglio

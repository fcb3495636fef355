// What a family says of a model: the shape of every layer, and where its tensors are in the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/rope.h"
#include "kernels/kernels.h"

namespace maglio {

// Where the rows of `heads` heads go. Each head is followed by rows of zeros up to `width` rows.
// For rotating halves, the first `paired` rows of a head, which the file has in the order of pairs
// (2i, 2i + 1), go to (i, i + paired / 2). No heads: the file's order.
struct RowOrder {
  int heads = 0;
  int head_dim = 0;
  int width = 0;
  int paired = 0;

  // Of `rows` in the file.
  int placed(int rows) const { return heads > 0 ? heads * width : rows; }
};

constexpr int kNoRope = -1;
constexpr int kMaxTaps = 8;
constexpr int kOwnKeys = -1;

struct AttentionSpec {
  int n_head = 0;
  int n_kv_head = 0;
  int head_dim = 0;
  float scale = 0;
  int window = 0;              // positions a query can see, itself included; 0 for all
  int rope = 0;                // index into ModelSpec::ropes, or kNoRope
  int rotated = 0;             // first values of a head that are rotated; 0 for all
  float cap = 0;               // scores become cap * tanh(score / cap); 0 for none
  float temperature = 0;       // queries grow by this times ln(1 + position / temperature_length,
  int temperature_length = 0;  // rounded down)
  bool head_norms = false;     // queries and keys are normed per head
  bool wide_norms = false;     // they are normed over all heads together
  bool paired_rows = false;    // the file orders query and key rows for rotation of pairs
  bool sinks = false;          // every head has a score without a value
  bool gated = false;          // the query weight has [query | gate] per head, and what a head
                               // attends to is multiplied by sigmoid(gate)

  bool value_norms = false;     // values are normed per head, without a weight
  bool keys_as_values = false;  // they are the projected keys, before their norm and rotation
  int kv_layer = kOwnKeys;      // an earlier layer whose keys and values are read; no own ones then

  bool owns_keys() const { return kv_layer == kOwnKeys; }
  bool owns_values() const { return owns_keys() && !keys_as_values; }
  int rotated_values() const { return rotated > 0 ? rotated : head_dim; }
  // Values of a head in memory: zeros follow the head's own up to a multiple of 16.
  int head_width() const { return (head_dim + 15) / 16 * 16; }
  int query_rows() const { return n_head * head_width(); }
  // Heads that the query weight computes: gates are heads too.
  int projected_heads() const { return gated ? 2 * n_head : n_head; }
  int projected_rows() const { return projected_heads() * head_width(); }
  int kv_rows() const { return n_kv_head * head_width(); }
  // Values that the output projection reads.
  int output_cols() const { return n_head * head_dim; }
  // Whether heads have to be brought together for it.
  bool gathers() const { return padded(output_cols()) != n_head * head_width() || padded_heads(); }
  bool padded_heads() const { return head_width() != head_dim; }
  RowOrder query_order() const { return order(projected_heads(), paired_rows); }
  RowOrder key_order() const { return order(n_kv_head, paired_rows); }
  RowOrder value_order() const { return order(n_kv_head, false); }
  std::string check(const std::vector<RopeSpec>& ropes) const;

 private:
  RowOrder order(int heads, bool paired) const {
    if (!paired && !padded_heads()) return {};
    return {heads, head_dim, head_width(), paired ? rotated_values() : 0};
  }
};

// A gated delta net: every value head has a state of head_dim x head_dim values that forgets and
// is corrected at each position.
struct DeltaNetSpec {
  int n_key_head = 0;
  int n_value_head = 0;
  int head_dim = 0;
  int n_taps = 0;        // of the causal convolution that queries, keys and values go through
  bool grouped = false;  // value heads of a key head lie together; otherwise key heads take turns

  int key_head_of(int value_head) const {
    return grouped ? value_head / (n_value_head / n_key_head) : value_head % n_key_head;
  }

  int key_cols() const { return n_key_head * head_dim; }
  int value_cols() const { return n_value_head * head_dim; }
  int channels() const { return 2 * key_cols() + value_cols(); }
  // Room for one number per value head.
  int heads_width() const { return (n_value_head + 15) / 16 * 16; }
  // Of what a row leaves for those after it: the channels before the convolution, then what the
  // decays and the rates are made of.
  int input_width() const { return channels() + 2 * heads_width(); }
  int state_size() const { return n_value_head * head_dim * head_dim; }
  std::string check() const;
};

// A gated causal convolution, whose state is what its last rows fed into it.
struct ShortConvSpec {
  int channels = 0;
  int n_taps = 0;

  int input_width() const { return channels; }
  int state_size() const { return 0; }
  std::string check() const;
};

struct GatedSpec {
  int n_ff = 0;
  GateActivation activation = GateActivation::kSilu;

  std::string check() const;
};

// What a row's products with the router become: what its experts are chosen by, and weighed with.
// A softmax of the chosen ones alone is kSoftmax with weights that sum to one.
enum class Gating : uint8_t { kSoftmax, kSigmoid };

struct ExpertsSpec {
  int n_ff = 0;  // of one expert
  int n_expert = 0;
  int n_used = 0;        // experts that a row takes
  int n_group = 1;       // experts are in groups of equal size, one after the other,
  int n_group_used = 1;  // of which a row takes experts of the best
  Gating gating = Gating::kSoftmax;
  bool normalize = true;       // the weights of a row's experts sum to one
  float scale = 1;             // of those weights
  int n_shared_ff = 0;         // of an expert that every row takes beside; 0 for none
  bool weighs_shared = false;  // how much it counts depends on the row
  bool norms_router = false;   // the router reads the residual stream through a norm of its own,
                               // divided by the root of its length
  GateActivation activation = GateActivation::kSilu;

  std::string check() const;
};

// Both beside each other.
struct ParallelSpec {
  GatedSpec dense;
  ExpertsSpec experts;

  std::string check() const;
};

using MixerSpec = std::variant<AttentionSpec, DeltaNetSpec, ShortConvSpec>;
using FeedForwardSpec = std::variant<GatedSpec, ExpertsSpec, ParallelSpec>;

// Where a weight is when it is not the tensor of its own name: rows of `tensor`, which several
// weights may share, from `first_row` on; or those of a list, for matrices alone.
struct Source {
  std::string tensor;
  int first_row = 0;
  int all_rows = 0;  // of the tensor; 0 when it is this weight's alone
  std::vector<int32_t> rows = {};
};

struct LayerSpec {
  MixerSpec mixer;
  FeedForwardSpec feed_forward;
  bool pre_norms = true;    // sub-layer inputs are normed
  bool post_norms = false;  // sub-layer outputs are normed before they join the residual stream
  float output_scale = 1;   // of the residual stream after the layer
  std::map<std::string, Source> sources;  // by the weight's name within the layer
};

struct ModelSpec {
  std::string architecture;
  int n_embd = 0;
  int n_vocab = 0;
  float norm_eps = 0;
  float embedding_scale = 1;
  float residual_scale = 1;  // of what a sub-layer adds to the residual stream
  int n_embd_per_layer = 0;  // values of the embedding that each layer has of a token; 0 for none
  float logit_scale = 1;
  float logit_cap = 0;  // logits become cap * tanh(logit / cap); 0 for none
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layers;
  std::map<std::string, Source> sources;  // of weights of no layer, by name

  // Of the embeddings that all layers have of a token.
  int64_t n_embd_all_layers() const {
    return static_cast<int64_t>(n_embd_per_layer) * static_cast<int64_t>(layers.size());
  }
  // A digest of all rotations; some files choose them by the length of a session.
  uint64_t rotations() const;
  // Says which dimension the kernels cannot do, or returns an empty string.
  std::string check() const;

 private:
  std::string check_shared_keys(size_t layer) const;
};

}  // namespace maglio

// A decoder-only transformer as the engine sees it: a spec and repacked weights.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/attention.h"
#include "engine/delta_net.h"
#include "engine/experts.h"
#include "engine/gated.h"
#include "engine/layer_input.h"
#include "engine/parallel.h"
#include "engine/short_conv.h"

namespace maglio {

using Mixer = std::variant<Attention, DeltaNet, ShortConv>;
using FeedForward = std::variant<Gated, Experts, Parallel>;

struct Layer {
  Mixer mixer;
  FeedForward feed_forward;
  Vector mixer_norm, feed_forward_norm;            // empty in models without, like
  Vector mixer_post_norm, feed_forward_post_norm;  // these
  LayerInput input;

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd, const LayerSpec& spec) {
    const Presence pre = spec.pre_norms ? kRequired : kAbsent;
    const Presence post = spec.post_norms ? kRequired : kAbsent;
    v("attn_norm.weight", self.mixer_norm, n_embd, pre);
    std::visit([&](auto& part) { part.visit(part, v, n_embd); }, self.mixer);
    v("post_attention_norm.weight", self.mixer_post_norm, n_embd, post);
    v("ffn_norm.weight", self.feed_forward_norm, n_embd, pre);
    std::visit([&](auto& part) { part.visit(part, v, n_embd); }, self.feed_forward);
    v("post_ffw_norm.weight", self.feed_forward_post_norm, n_embd, post);
    LayerInput::visit(self.input, v, n_embd);
  }
};

struct Model {
  Model() = default;
  // Layers without weights. `spec` must pass its check().
  explicit Model(ModelSpec spec);

  ModelSpec spec;
  std::vector<Layer> layers;
  Matrix embedding;
  LayerEmbeddings layer_embeddings;
  Matrix head;  // empty when the embedding serves as the head
  Vector output_norm;
  bool is_mapped = false;  // matrices are pages of a file, which take no memory of their own
  Vector output_bias;      // of the logits; may be empty

  // Calls v(tensor name, ...) for each weight that is the model's, and in(i, name, ...) for each of
  // layer i.
  template <typename Self, typename V, typename InLayer>
  static void visit(Self& self, V&& v, InLayer&& in) {
    const int n_embd = self.spec.n_embd;
    v("token_embd.weight", self.embedding, self.spec.n_vocab, n_embd);
    LayerEmbeddings::visit(self.layer_embeddings, v, self.spec);
    v("output_norm.weight", self.output_norm, n_embd);
    v("output.weight", self.head, self.spec.n_vocab, n_embd, kIfPresent);
    v("output.bias", self.output_bias, self.spec.n_vocab, kIfPresent);
    for (size_t i = 0; i < self.layers.size(); ++i) {
      const auto prefixed = [&](const char* name, auto& weight, auto... shape) {
        in(i, name, weight, shape...);
      };
      Layer::visit(self.layers[i], prefixed, n_embd, self.spec.layers[i]);
    }
  }

  const Matrix& output_head() const { return head.empty() ? embedding : head; }
  size_t weight_bytes() const;

  // Says what is wrong (with the spec, or a weight of the wrong size or missing), or returns an
  // empty string.
  std::string check() const;
};

// The name of a layer's tensor in a file.
inline std::string tensor_name(size_t layer, const std::string& name) {
  return "blk." + std::to_string(layer) + "." + name;
}

}  // namespace maglio

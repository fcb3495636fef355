// Per-layer embeddings: each layer has a small embedding of every token of its own, and a third
// sub-layer that gates it and adds it to the residual stream.
#pragma once

#include "engine/embedding_table.h"
#include "engine/visit.h"

namespace maglio {

struct Pass;

// The model's part: the embeddings, and what the token's own embedding adds to them.
struct LayerEmbeddings {
  EmbeddingTable table;  // [token][layer * n_embd_per_layer + i]
  Matrix projection;
  Vector norm;

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, const ModelSpec& spec) {
    const Presence presence = spec.n_embd_per_layer > 0 ? kRequired : kAbsent;
    const int all = static_cast<int>(spec.n_embd_all_layers());
    v("per_layer_token_embd.weight", self.table, spec.n_vocab, all, presence);
    v("per_layer_model_proj.weight", self.projection, all, spec.n_embd, presence);
    v("per_layer_proj_norm.weight", self.norm, spec.n_embd_per_layer, presence);
  }

  // From the residual stream, as the tokens' embeddings have begun it, to `layer_embeddings`.
  void run(Pass& pass, int member) const;
};

// A layer's part.
struct LayerInput {
  int n = 0;  // values of its embedding of a token; 0 in models without
  Matrix gate, projection;
  Vector post_norm;

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const Presence presence = self.n > 0 ? kRequired : kAbsent;
    v("inp_gate.weight", self.gate, self.n, n_embd, presence);
    v("proj.weight", self.projection, n_embd, self.n, presence);
    v("post_norm.weight", self.post_norm, n_embd, presence);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const { return is_quantized(gate.view().layout); }
  // From embd_in to `projected`.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

// The attention sub-layer.
#pragma once

#include "engine/visit.h"

namespace maglio {

struct Pass;

struct Attention {
  AttentionSpec spec;
  Matrix query, key, value, output;
  Vector query_norm, key_norm;
  Vector query_bias, key_bias, value_bias, output_bias;
  Vector sinks;  // a score of each query head that has no value

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const AttentionSpec& s = self.spec;
    const Presence norms = s.head_norms || s.wide_norms ? kRequired : kAbsent;
    const Presence keyed = s.owns_keys() ? kRequired : kAbsent;
    const Presence valued = s.owns_values() ? kRequired : kAbsent;
    const int queries = s.projected_heads() * s.head_dim, keys = s.n_kv_head * s.head_dim;
    v("attn_q.weight", self.query, queries, n_embd, kRequired, s.query_order());
    v("attn_k.weight", self.key, keys, n_embd, keyed, s.key_order());
    v("attn_v.weight", self.value, keys, n_embd, valued, s.value_order());
    v("attn_output.weight", self.output, n_embd, s.output_cols());
    v("attn_q_norm.weight", self.query_norm, s.wide_norms ? queries : s.head_dim, norms);
    v("attn_k_norm.weight", self.key_norm, s.wide_norms ? keys : s.head_dim,
      s.owns_keys() ? norms : kAbsent);
    v("attn_q.bias", self.query_bias, queries, kIfPresent, s.query_order());
    v("attn_k.bias", self.key_bias, keys, s.owns_keys() ? kIfPresent : kAbsent, s.key_order());
    v("attn_v.bias", self.value_bias, keys, s.owns_values() ? kIfPresent : kAbsent,
      s.value_order());
    v("attn_output.bias", self.output_bias, n_embd, kIfPresent);
    v("attn_sinks.weight", self.sinks, s.n_head, s.sinks ? kRequired : kAbsent);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const;
  // From embd_in to `projected`, leaving the rows' keys and values in their caches.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

// The gated delta net sub-layer (Yang, Kautz and Hatamizadeh, 2024).
#pragma once

#include "engine/visit.h"

namespace maglio {

struct Pass;

struct DeltaNet {
  DeltaNetSpec spec;
  Matrix query_key_value, gate, rate, decay, output;
  Taps conv;
  Vector decay_bias, decay_scale, output_norm, output_bias;

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const DeltaNetSpec& s = self.spec;
    v("attn_qkv.weight", self.query_key_value, s.channels(), n_embd);
    v("attn_gate.weight", self.gate, s.value_cols(), n_embd);
    v("ssm_beta.weight", self.rate, s.n_value_head, n_embd);
    v("ssm_alpha.weight", self.decay, s.n_value_head, n_embd);
    v("ssm_conv1d.weight", self.conv, s.channels(), s.n_taps);
    v("ssm_dt.bias", self.decay_bias, s.n_value_head);
    v("ssm_a", self.decay_scale, s.n_value_head);
    v("ssm_norm.weight", self.output_norm, s.head_dim);
    v("ssm_out.weight", self.output, n_embd, s.value_cols());
    v("ssm_out.bias", self.output_bias, n_embd, kIfPresent);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const;
  // From embd_in to `projected`, leaving states and row inputs in the rows' caches.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

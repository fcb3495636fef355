// The gated feed-forward sub-layer.
#pragma once

#include "engine/visit.h"

namespace maglio {

struct Pass;

struct Gated {
  GatedSpec spec;
  Matrix gate, up, down;
  Vector gate_bias, up_bias, output_bias;

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const int n_ff = self.spec.n_ff;
    v("ffn_gate.weight", self.gate, n_ff, n_embd);
    v("ffn_up.weight", self.up, n_ff, n_embd);
    v("ffn_down.weight", self.down, n_embd, n_ff);
    v("ffn_gate.bias", self.gate_bias, n_ff, kIfPresent);
    v("ffn_up.bias", self.up_bias, n_ff, kIfPresent);
    v("ffn_down.bias", self.output_bias, n_embd, kIfPresent);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const;
  // From embd_in to `projected`.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

// The feed-forward sub-layer of experts, of which each row takes a few.
//
// Rows are gathered by expert, so that a forward reads an expert's weights once, however many rows
// take it. That changes no bit: a row's product with an expert's weights is its own, and its
// outputs are added best expert first, whoever else took them.
#pragma once

#include "engine/visit.h"

namespace maglio {

struct Pass;

struct Experts {
  ExpertsSpec spec;
  Matrix router;
  Matrix gate, up, down;  // of all experts, one below the other
  Vector output_bias;     // none

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const int n = self.spec.n_expert, n_ff = self.spec.n_ff;
    v("ffn_gate_inp.weight", self.router, n, n_embd);
    v("ffn_gate_exps.weight", self.gate, n * n_ff, n_embd, kRequired, RowOrder{}, n);
    v("ffn_up_exps.weight", self.up, n * n_ff, n_embd, kRequired, RowOrder{}, n);
    v("ffn_down_exps.weight", self.down, n * n_embd, n_ff, kRequired, RowOrder{}, n);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const;
  // From embd_in to `projected`.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

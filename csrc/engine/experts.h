// The feed-forward sub-layer of experts, of which each row takes a few, and perhaps one that all
// rows share.
//
// Rows are gathered by expert, so that a forward reads an expert's weights once, however many rows
// take it. That changes no bit: a row's product with an expert's weights is its own, and its
// outputs are added best expert first and the shared one last, whoever else took them.
#pragma once

#include "engine/visit.h"

namespace maglio {

struct Pass;

struct Experts {
  ExpertsSpec spec;
  Matrix router;
  Matrix gate, up, down;  // of all experts, one below the other
  Matrix shared_gate, shared_up, shared_down;
  Matrix shared_router;  // a row; how much the shared expert counts, before a sigmoid
  Vector router_norm;
  Vector router_bias;
  Vector selection_bias;                 // added to choose, and not to weigh
  Vector gate_bias, up_bias, down_bias;  // of all experts, one after the other
  Vector down_scale;                     // [n_expert]: of outputs, before their bias
  Vector output_bias;                    // none

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const ExpertsSpec& s = self.spec;
    const int n = s.n_expert, n_ff = s.n_ff;
    v("ffn_gate_inp.weight", self.router, n, n_embd);
    v("ffn_gate_exps.weight", self.gate, n * n_ff, n_embd, kRequired, RowOrder{}, n);
    v("ffn_up_exps.weight", self.up, n * n_ff, n_embd, kRequired, RowOrder{}, n);
    v("ffn_down_exps.weight", self.down, n * n_embd, n_ff, kRequired, RowOrder{}, n);
    v("ffn_gate_inp.scale", self.router_norm, n_embd, s.norms_router ? kRequired : kAbsent);
    v("ffn_down_exps.scale", self.down_scale, n, kIfPresent);
    v("ffn_gate_inp.bias", self.router_bias, n, kIfPresent);
    v("exp_probs_b.bias", self.selection_bias, n, kIfPresent);
    v("ffn_gate_exps.bias", self.gate_bias, n * n_ff, kIfPresent, RowOrder{}, n);
    v("ffn_up_exps.bias", self.up_bias, n * n_ff, kIfPresent, RowOrder{}, n);
    v("ffn_down_exps.bias", self.down_bias, n * n_embd, kIfPresent, RowOrder{}, n);
    const Presence shared = s.n_shared_ff > 0 ? kRequired : kAbsent;
    v("ffn_gate_shexp.weight", self.shared_gate, s.n_shared_ff, n_embd, shared);
    v("ffn_up_shexp.weight", self.shared_up, s.n_shared_ff, n_embd, shared);
    v("ffn_down_shexp.weight", self.shared_down, n_embd, s.n_shared_ff, shared);
    v("ffn_gate_inp_shexp.weight", self.shared_router, 1, n_embd,
      s.weighs_shared ? kRequired : kAbsent);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const;
  // From embd_in to `projected`.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

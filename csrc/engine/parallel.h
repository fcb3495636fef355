// A gated feed-forward sub-layer and one of experts beside each other: both read the residual
// stream, each through a norm of its own, and their normed outputs are added.
#pragma once

#include "engine/experts.h"
#include "engine/gated.h"

namespace maglio {

struct Parallel {
  Gated dense;
  Experts experts;
  Vector experts_norm;  // of their input; the layer norms that of the other
  Vector dense_post_norm, experts_post_norm;
  Vector output_bias;  // none

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    Gated::visit(self.dense, v, n_embd);
    Experts::visit(self.experts, v, n_embd);
    v("pre_ffw_norm_2.weight", self.experts_norm, n_embd);
    v("post_ffw_norm_1.weight", self.dense_post_norm, n_embd);
    v("post_ffw_norm_2.weight", self.experts_post_norm, n_embd);
  }

  // Whether any reader of embd_in wants it in 8 bits.
  bool reads_codes() const { return dense.reads_codes(); }
  // From embd_in and the residual stream to `projected`.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

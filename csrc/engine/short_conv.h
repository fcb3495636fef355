// The gated short convolution sub-layer of LFM2.
#pragma once

#include "engine/visit.h"

namespace maglio {

struct Pass;

struct ShortConv {
  ShortConvSpec spec;
  Matrix input, output;  // the input has [before | after | x] rows
  Taps conv;
  Vector output_bias;

  template <typename Self, typename V>
  static void visit(Self& self, V&& v, int n_embd) {
    const ShortConvSpec& s = self.spec;
    v("shortconv.in_proj.weight", self.input, 3 * s.channels, n_embd);
    v("shortconv.conv.weight", self.conv, s.channels, s.n_taps);
    v("shortconv.out_proj.weight", self.output, n_embd, s.channels);
    v("shortconv.out_proj.bias", self.output_bias, n_embd, kIfPresent);
  }

  // Whether any reader of the sub-layer's input wants it in 8 bits.
  bool reads_codes() const;
  // From embd_in to `projected`, leaving row inputs in the rows' caches.
  void run(Pass& pass, int member, int layer) const;
};

}  // namespace maglio

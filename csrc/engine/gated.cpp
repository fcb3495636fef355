#include "engine/gated.h"

#include <algorithm>

#include "engine/pass.h"

namespace maglio {
namespace {

// Adds a row's bias to values [begin, end), counted over all rows.
void add_bias(const Pass& pass, const Vector& bias, float* values, size_t begin, size_t end) {
  if (bias.empty()) return;
  for (size_t at = begin; at < end;) {
    const size_t column = at % bias.size();
    const size_t n = std::min(end - at, bias.size() - column);
    pass.kernels.add(values + at, bias.data() + column, static_cast<int>(n));
    at += n;
  }
}

}  // namespace

bool Gated::reads_codes() const { return gate.reads_codes() || up.reads_codes(); }

void Gated::run(Pass& pass, int member, int layer) const {
  Scratch& s = pass.scratch;
  const int phase = layer * kLayerPhases, n = pass.n();
  const int width = padded(spec.n_ff);
  const Activations in = s.embd_in.view(pass.width()), hidden = s.ffn_in.view(width);
  pass.project(phase + kGateUp, {{gate.view(), in, s.gate.data(), n, width},
                                 {up.view(), in, s.up.data(), n, width}});
  const Share blocks = share_of(n * width / kBlockValues, member, pass.team());
  const size_t first = static_cast<size_t>(blocks.begin), last = static_cast<size_t>(blocks.end);
  const size_t begin = first * kBlockValues, end = last * kBlockValues;
  add_bias(pass, gate_bias, s.gate.data(), begin, end);
  add_bias(pass, up_bias, s.up.data(), begin, end);
  pass.kernels.gate(spec.activation, s.gate.data() + begin, s.up.data() + begin,
                    hidden.values + begin, static_cast<int>(end - begin));
  if (is_quantized(down.view().layout)) pass.kernels.quantize(hidden, first, last);
  pass.pool.barrier();
  pass.project(phase + kDown, {{down.view(), hidden, s.projected.data(), n, pass.width()}});
}

}  // namespace maglio

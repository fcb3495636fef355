#include "engine/gated.h"

namespace maglio {

void run_gated(Pass& pass, int member, int layer_index) {
  const ModelSpec& spec = pass.model.spec;
  const Layer& layer = pass.model.layers[static_cast<size_t>(layer_index)];
  Scratch& s = pass.scratch;
  const int phase = layer_index * kLayerPhases, n = pass.n();
  const Activations in = s.embd_in.view(spec.n_embd), hidden = s.ffn_in.view(spec.n_ff);
  pass.project(phase + kGateUp,
               {{layer.gate, in, s.gate.data(), n}, {layer.up, in, s.up.data(), n}});
  const Share blocks = share_of(n * spec.n_ff / kBlockValues, member, pass.team());
  const size_t begin = static_cast<size_t>(blocks.begin), end = static_cast<size_t>(blocks.end);
  pass.kernels.gate(spec.activation, s.gate.data() + begin * kBlockValues,
                    s.up.data() + begin * kBlockValues, hidden.values + begin * kBlockValues,
                    (blocks.end - blocks.begin) * kBlockValues);
  if (is_quantized(layer.down.view().layout)) pass.kernels.quantize(hidden, begin, end);
  pass.pool.barrier();
  pass.project(phase + kDown, {{layer.down, hidden, s.projected.data(), n}});
}

}  // namespace maglio

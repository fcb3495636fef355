#include "engine/layer_input.h"

#include <cmath>

#include "engine/pass.h"

namespace maglio {

void LayerEmbeddings::run(Pass& pass, int member) const {
  const ModelSpec& spec = pass.model.spec;
  const int n = spec.n_embd_per_layer, n_layer = static_cast<int>(spec.layers.size());
  const int all = n * n_layer;
  Scratch& s = pass.scratch;
  const bool quantize = is_quantized(projection.view().layout);
  pass.each_row(member, pass.n(), [&](int row) {
    const size_t at = static_cast<size_t>(row);
    table.read(pass.rows[at].token, s.layer_embeddings.data() + at * static_cast<size_t>(all));
    pass.norm_input(row, row, {}, quantize);
  });
  pass.project(s.model_phase(kLayerEmbeddings), {{projection.view(), s.embd_in.view(pass.width()),
                                                  s.layer_projected.data(), pass.n(), all}});
  const float shrink = 1.0f / std::sqrt(static_cast<float>(spec.n_embd));
  const float grow = std::sqrt(static_cast<float>(n));
  const float inverse_root = 1.0f / std::sqrt(2.0f);
  const Share mine = share_of(pass.n() * n_layer, member, pass.team());
  for (int i = mine.begin; i < mine.end; ++i) {
    float* projected = s.layer_projected.data() + static_cast<size_t>(i) * n;
    float* out = s.layer_embeddings.data() + static_cast<size_t>(i) * n;
    for (int j = 0; j < n; ++j) projected[j] *= shrink;
    pass.kernels.rms_norm(projected, norm.data(), n, spec.norm_eps, projected);
    for (int j = 0; j < n; ++j) out[j] = (projected[j] + out[j] * grow) * inverse_root;
  }
  pass.pool.barrier();
}

void LayerInput::run(Pass& pass, int member, int layer) const {
  Scratch& s = pass.scratch;
  const int phase = layer * kLayerPhases, rows = pass.n();
  const Activations hidden = s.ffn_in.view(n);
  pass.project(phase + kInputGate,
               {{gate.view(), s.embd_in.view(pass.width()), s.gate.data(), rows, n}});
  const size_t n_layer = pass.model.layers.size(), width = static_cast<size_t>(n);
  pass.each_row(member, rows, [&](int row) {
    const size_t at = static_cast<size_t>(row), blocks = width / kBlockValues;
    const float* embedding =
        s.layer_embeddings.data() + (at * n_layer + static_cast<size_t>(layer)) * width;
    pass.kernels.gate(GateActivation::kGeluTanh, s.gate.data() + at * width, embedding,
                      hidden.values + at * width, n);
    if (is_quantized(projection.view().layout)) {
      pass.kernels.quantize(hidden, at * blocks, (at + 1) * blocks);
    }
  });
  pass.project(phase + kInputProjection,
               {{projection.view(), hidden, s.projected.data(), rows, pass.width()}});
}

}  // namespace maglio

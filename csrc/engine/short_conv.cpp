#include "engine/short_conv.h"

#include "engine/pass.h"

namespace maglio {

bool ShortConv::reads_codes() const { return is_quantized(input.view().layout); }

void ShortConv::run(Pass& pass, int member, int layer) const {
  Scratch& s = pass.scratch;
  const int phase = layer * kLayerPhases, n = pass.n(), channels = spec.channels;
  const Activations in = s.embd_in.view(pass.width());
  pass.project(phase + kMixerInput, {{input.view(), in, s.recurrent.gate.data(), n, 3 * channels}});
  const auto gates = [&](int row) {
    return s.recurrent.gate.data() + static_cast<size_t>(row) * 3 * static_cast<size_t>(channels);
  };
  pass.each_row(member, n, [&](int row) {
    const float* before = gates(row);
    float* fed = s.recurrent.inputs.data() + static_cast<size_t>(row) * channels;
    for (int c = 0; c < channels; ++c) fed[c] = before[c] * before[2 * channels + c];
  });
  const Activations out = s.attention_in.view(padded(channels));
  const size_t blocks = static_cast<size_t>(out.cols / kBlockValues);
  pass.keep_inputs(member, layer);
  pass.each_new_row(member, [&](const RowRange& range, int i) {
    const int row = range.first + i, position = range.advance().base + i;
    const float* rows[kMaxTaps];
    for (int t = 0; t < spec.n_taps; ++t) {
      rows[t] = pass.recurrent_input(range, layer, position - spec.n_taps + 1 + t);
    }
    float* y = out.values + static_cast<size_t>(row) * static_cast<size_t>(out.cols);
    pass.kernels.convolve(rows, conv.from(0), spec.n_taps, channels, y);
    const float* after = gates(row) + channels;
    for (int c = 0; c < channels; ++c) y[c] *= after[c];
    if (!is_quantized(output.view().layout)) return;
    pass.kernels.quantize(out, static_cast<size_t>(row) * blocks,
                          (static_cast<size_t>(row) + 1) * blocks);
  });
  pass.project(phase + kOutput, {{output.view(), out, s.projected.data(), n, pass.width()}});
}

}  // namespace maglio

#include "engine/delta_net.h"

#include <algorithm>
#include <cmath>

#include "engine/pass.h"
#include "math/elementary.h"

namespace maglio {
namespace {

// Columns of a state that a member works on at a time, row after row: they stay in its cache.
constexpr int kColumns = 64;

// A member's part of the sub-layer. Rows are counted with those that are computed again.
struct DeltaRun {
  Pass& pass;
  const int member;
  const int layer;
  const DeltaNet& weights;
  const DeltaNetSpec& spec = weights.spec;
  const RecurrentLayout& layout = pass.recurrent;
  const float eps = pass.model.spec.norm_eps;

  float* mixed(int row, int channel) const {
    return pass.scratch.recurrent.mixed.data() + static_cast<size_t>(row) * spec.channels() +
           channel;
  }
  float* recalled(int row, int head) const {
    return pass.scratch.recurrent.recalled.data() + static_cast<size_t>(row) * spec.value_cols() +
           head * spec.head_dim;
  }

  void mix_rows() const;
  void mix(const RowRange& range, int i, int head) const;
  void weigh(const float* input, int row, int head) const;
  void recall() const;
  void recall_columns(const RowRange& range, int head, int first, int last) const;
  void hand_over() const;
};

// Queries, keys and values of the i-th row of a range, a head of any of them: convolved, activated,
// and of length 1 where they are not values.
void DeltaRun::mix(const RowRange& range, int i, int head) const {
  const int position = range.advance().base - range.advance().again + i;
  const int channel = head * spec.head_dim, row = range.first_of_all + i;
  const float* rows[kMaxTaps];
  for (int t = 0; t < spec.n_taps; ++t) {
    const float* input = pass.recurrent_input(range, layer, position - spec.n_taps + 1 + t);
    rows[t] = input ? input + channel : nullptr;
  }
  float* x = mixed(row, channel);
  pass.kernels.convolve(rows, weights.conv.from(channel), spec.n_taps, spec.head_dim, x);
  pass.kernels.scale_by_sigmoid(x, x, spec.head_dim);
  const int value_head = head - 2 * spec.n_key_head;
  if (value_head >= 0) return weigh(rows[spec.n_taps - 1] - channel, row, value_head);
  const float scale =
      head < spec.n_key_head ? 1.0f / std::sqrt(static_cast<float>(spec.head_dim)) : 1.0f;
  pass.kernels.unit_norm(x, spec.head_dim, eps, scale);
}

// How much a head forgets at a row, and how far it is corrected. Few numbers, so in double
// precision.
void DeltaRun::weigh(const float* input, int row, int head) const {
  const size_t at = static_cast<size_t>(row) * spec.n_value_head + head;
  const double decay = input[spec.channels() + head],
               rate = input[spec.channels() + spec.heads_width() + head];
  const double x = decay + weights.decay_bias[static_cast<size_t>(head)];
  // Also for NaN, which stays.
  const double softplus = x <= 20 ? natural_log(1 + exponential(x)) : x;
  const double g = softplus * weights.decay_scale[static_cast<size_t>(head)];
  pass.scratch.recurrent.decays[at] = static_cast<float>(exponential(g));
  pass.scratch.recurrent.rates[at] = static_cast<float>(1 / (1 + exponential(-rate)));
}

void DeltaRun::mix_rows() const {
  const int heads = 2 * spec.n_key_head + spec.n_value_head;
  const Share mine = share_of(pass.n_all() * heads, member, pass.team());
  for (const RowRange& range : pass.ranges) {
    const int begin = range.first_of_all * heads;
    const int end = begin + range.advance().rows(range.n) * heads;
    for (int i = std::max(begin, mine.begin); i < std::min(end, mine.end); ++i) {
      mix(range, (i - begin) / heads, (i - begin) % heads);
    }
  }
  pass.keep_inputs(member, layer);
  pass.pool.barrier();
}

void DeltaRun::recall_columns(const RowRange& range, int head, int first, int last) const {
  const Advance& advance = range.advance();
  const size_t offset =
      layout.state_at(layer) + static_cast<size_t>(head) * spec.head_dim * spec.head_dim;
  const float* from = advance.from ? advance.from + offset : nullptr;
  for (int i = 0; i < advance.rows(range.n); ++i) {
    const int row = range.first_of_all + i;
    const size_t weight = static_cast<size_t>(row) * spec.n_value_head + head;
    const int key = spec.key_head_of(head) * spec.head_dim;
    const DeltaRow delta = {
        mixed(row, key),
        mixed(row, spec.key_cols() + key),
        mixed(row, 2 * spec.key_cols() + head * spec.head_dim),
        pass.scratch.recurrent.decays[weight],
        pass.scratch.recurrent.rates[weight],
        recalled(row, head),
    };
    float* to = advance.state_after(i) + offset;
    pass.kernels.delta(delta, spec.head_dim, first, last, from, to);
    from = to;
  }
}

// Members own columns of heads, of all ranges.
void DeltaRun::recall() const {
  const int parts = (spec.head_dim + kColumns - 1) / kColumns;
  const Share mine = share_of(spec.n_value_head * parts, member, pass.team());
  for (int i = mine.begin; i < mine.end; ++i) {
    const int first = i % parts * kColumns;
    for (const RowRange& range : pass.ranges) {
      recall_columns(range, i / parts, first, std::min(first + kColumns, spec.head_dim));
    }
  }
  pass.pool.barrier();
}

void DeltaRun::hand_over() const {
  const int cols = spec.value_cols();
  const Activations out = pass.scratch.attention_in.view(padded(cols));
  const bool quantized = is_quantized(weights.output.view().layout);
  const size_t blocks = static_cast<size_t>(out.cols / kBlockValues);
  pass.each_new_row(member, [&](const RowRange& range, int i) {
    const size_t row = static_cast<size_t>(range.first + i);
    float* to = out.values + row * static_cast<size_t>(out.cols);
    for (int head = 0; head < spec.n_value_head; ++head) {
      pass.kernels.rms_norm(recalled(range.first_of_all + range.advance().again + i, head),
                            weights.output_norm.data(), spec.head_dim, eps,
                            to + head * spec.head_dim);
    }
    const float* gate = pass.scratch.recurrent.gate.data() + row * static_cast<size_t>(cols);
    pass.kernels.gate(GateActivation::kSilu, gate, to, to, cols);
    if (quantized) pass.kernels.quantize(out, row * blocks, (row + 1) * blocks);
  });
}

}  // namespace

bool DeltaNet::reads_codes() const {
  const auto reads = [](const Matrix& m) { return is_quantized(m.view().layout); };
  return reads(query_key_value) || reads(gate) || reads(rate) || reads(decay);
}

void DeltaNet::run(Pass& pass, int member, int layer) const {
  Scratch& s = pass.scratch;
  const int phase = layer * kLayerPhases, n = pass.n(), width = spec.input_width();
  const Activations in = s.embd_in.view(pass.width());
  float* inputs = s.recurrent.inputs.data();
  pass.project(phase + kMixerInput,
               {{query_key_value.view(), in, inputs, n, width},
                {gate.view(), in, s.recurrent.gate.data(), n, spec.value_cols()},
                {decay.view(), in, inputs + spec.channels(), n, width},
                {rate.view(), in, inputs + spec.channels() + spec.heads_width(), n, width}});
  const DeltaRun part{pass, member, layer, *this};
  part.mix_rows();
  part.recall();
  part.hand_over();
  const Activations out = s.attention_in.view(padded(spec.value_cols()));
  pass.project(phase + kOutput, {{output.view(), out, s.projected.data(), n, pass.width()}});
}

}  // namespace maglio

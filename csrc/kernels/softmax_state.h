// What a query keeps while it walks a cache. Included once per instruction set.
#pragma once

#include <limits>

#include "kernels/elementwise.h"

namespace maglio {
namespace {

constexpr int kTilesPerBlock = kAttentionBlock / kKeyTile;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

struct SoftmaxState {
  float maximum;
  Vec sum;
  alignas(64) float weights[kAttentionBlock];
};

// Lanes of a block's tile t outside positions [lo, hi) become `other`.
inline Vec keep_positions(Vec v, int t, int lo, int hi, float other) {
  const int from = lo - t * kKeyTile, to = hi - t * kKeyTile;
  return keep_range(v, from < 0 ? 0 : from > 16 ? 16 : from, to < 0 ? 0 : to > 16 ? 16 : to, other);
}

// A sink is what every query begins with, before the first position it sees: its score is the
// maximum so far, and it weighs one beside it.
inline void begin_softmax(SoftmaxState& state, float sink) {
  state.maximum = sink;
  state.sum = keep_range(broadcast(1.0f), 0, sink == kNoSink ? 0 : 1, 0.0f);
}

// Turns scores into weights relative to the new running maximum; returns the factor by which what
// was summed before has to shrink. Lanes outside [lo, hi) get weight zero.
float update_softmax(SoftmaxState& state, Vec* scores, int lo, int hi) {
  Vec top = broadcast(kMasked);
  for (int t = 0; t < kTilesPerBlock; ++t) {
    scores[t] = keep_positions(scores[t], t, lo, hi, kMasked);
    top = max(top, scores[t]);
  }
  const float block_maximum = reduce_max(top);
  const float maximum = state.maximum > block_maximum ? state.maximum : block_maximum;
  // e^-inf is not computed: exp_vec clamps, and nothing was summed before the first block.
  float shrink = 0.0f;
  if (state.maximum != kMasked) {
    alignas(64) float lanes[16];
    store(lanes, exp_vec(broadcast(state.maximum - maximum)));
    shrink = lanes[0];
  }
  Vec weights[kTilesPerBlock];
  for (int t = 0; t < kTilesPerBlock; ++t) {
    weights[t] = keep_positions(exp_vec(sub(scores[t], broadcast(maximum))), t, lo, hi, 0.0f);
    store(state.weights + t * kKeyTile, weights[t]);
  }
  const Vec block_sum = add(add(weights[0], weights[1]), add(weights[2], weights[3]));
  state.sum = fma(state.sum, broadcast(shrink), block_sum);
  state.maximum = maximum;
  return shrink;
}

}  // namespace
}  // namespace maglio

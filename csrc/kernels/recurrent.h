// The arithmetic of recurrent layers. Included once per instruction set.
#pragma once

#include "kernels/elementwise.h"

namespace maglio {
namespace {

void scale_by_sigmoid(float* x, const float* z, int n) {
  for (int i = 0; i < n; i += 16) store(x + i, times_sigmoid(load(x + i), load(z + i)));
}

void unit_norm(float* x, int n, float eps, float scale) {
  Vec squares = zero();
  for (int i = 0; i < n; i += 16) {
    const Vec v = load(x + i);
    squares = fma(v, v, squares);
  }
  const Vec factor = broadcast(scale / __builtin_sqrtf(reduce_add(squares) + eps));
  for (int i = 0; i < n; i += 16) store(x + i, mul(load(x + i), factor));
}

void convolve(const float* const* rows, const float* taps, int n_taps, int n, float* out) {
  for (int i = 0; i < n; i += 16) {
    Vec sum = zero();
    for (int t = 0; t < n_taps; ++t) {
      if (rows[t]) sum = fma(load(taps + 16 * t), load(rows[t] + i), sum);
    }
    store(out + i, sum);
    taps += 16 * n_taps;
  }
}

// Columns of a state do not mix, so a lane is a column, and several vectors of them hide the
// latency of the sums over its rows.
template <int kVectors>
[[gnu::always_inline]] inline void delta_columns(const DeltaRow& row, int n, int column,
                                                 const float* from, float* to) {
  const Vec decay = broadcast(row.decay), rate = broadcast(row.rate);
  const auto decayed = [&](int k, int v) {
    return from ? mul(load(from + k * n + column + 16 * v), decay) : zero();
  };
  Vec recalled[kVectors], change[kVectors], out[kVectors];
  for (int v = 0; v < kVectors; ++v) recalled[v] = out[v] = zero();
  for (int k = 0; k < n && from; ++k) {
    const Vec key = broadcast(row.key[k]);
    for (int v = 0; v < kVectors; ++v) recalled[v] = fma(decayed(k, v), key, recalled[v]);
  }
  for (int v = 0; v < kVectors; ++v) {
    change[v] = mul(sub(load(row.value + column + 16 * v), recalled[v]), rate);
  }
  for (int k = 0; k < n; ++k) {
    const Vec key = broadcast(row.key[k]), query = broadcast(row.query[k]);
    for (int v = 0; v < kVectors; ++v) {
      const Vec state = fma(key, change[v], decayed(k, v));
      store(to + k * n + column + 16 * v, state);
      out[v] = fma(state, query, out[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(row.out + column + 16 * v, out[v]);
}

void delta(const DeltaRow& row, int n, int first, int last, const float* from, float* to) {
  for (; first + 64 <= last; first += 64) delta_columns<4>(row, n, first, from, to);
  for (; first < last; first += 16) delta_columns<1>(row, n, first, from, to);
}

}  // namespace
}  // namespace maglio

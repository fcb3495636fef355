// Norms, activations, rotation and quantization. Included once per instruction set.
#pragma once

#include "kernels/kernels.h"

namespace maglio {
namespace {

// e^x by range reduction to |r| <= ln(2) / 2 and a degree-6 polynomial (relative error about
// 2e-7). Below -87 it stays at e^-87, above 88 at e^88.
inline Vec exp_vec(Vec x) {
  x = max(min(x, broadcast(88.0f)), broadcast(-87.0f));
  const Vec n = round_nearest(mul(x, broadcast(1.44269504f)));
  Vec r = fnma(n, broadcast(0.693359375f), x);
  r = fnma(n, broadcast(-2.12194440e-4f), r);
  Vec p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, broadcast(1.0f)));
  return mul(p, exp2_integral(n));
}

void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  Vec squares = zero();
  const int whole = n - n % 16;
  for (int i = 0; i < whole; i += 16) {
    const Vec v = load(x + i);
    squares = fma(v, v, squares);
  }
  if (whole < n) {
    const Vec v = keep_range(load(x + whole), 0, n - whole, 0.0f);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const Vec scale = broadcast(1.0f / __builtin_sqrtf(mean + eps));
  for (int i = 0; i < n; i += 16) {
    const Vec normed = mul(load(x + i), scale);
    store(out + i, weight ? mul(normed, load(weight + i)) : normed);
  }
}

void add_rows(float* x, const float* y, int n) {
  for (int i = 0; i < n; i += 16) store(x + i, add(load(x + i), load(y + i)));
}

// x * sigmoid(z).
inline Vec times_sigmoid(Vec x, Vec z) {
  return div(x, add(broadcast(1.0f), exp_vec(sub(zero(), z))));
}

// GELU with the tanh approximation: x * (1 + tanh(y)) / 2 = x * sigmoid(2 y).
inline Vec gelu(Vec x) {
  const Vec cube = mul(mul(x, x), x);
  const Vec y = mul(broadcast(0.7978845608f), fma(broadcast(0.044715f), cube, x));
  return times_sigmoid(x, add(y, y));
}

// The second operand wins on NaN, so what is none stays none.
inline Vec clamped_swiglu(Vec gate, Vec up) {
  const Vec limit = broadcast(7.0f);
  const Vec x = min(limit, gate), u = max(broadcast(-7.0f), min(limit, up));
  return mul(times_sigmoid(x, mul(x, broadcast(1.702f))), add(u, broadcast(1.0f)));
}

void gate(GateActivation activation, const float* gate_in, const float* up, float* out, int n) {
  for (int i = 0; i < n; i += 16) {
    const Vec g = load(gate_in + i), u = load(up + i);
    switch (activation) {
      case GateActivation::kSilu:
        store(out + i, mul(times_sigmoid(g, g), u));
        break;
      case GateActivation::kGeluTanh:
        store(out + i, mul(gelu(g), u));
        break;
      case GateActivation::kClampedSwiglu:
        store(out + i, clamped_swiglu(g, u));
    }
  }
}

void sigmoid(float* x, int n) {
  for (int i = 0; i < n; i += 16) {
    alignas(64) float lanes[16] = {};
    const int filled = n - i < 16 ? n - i : 16;
    for (int l = 0; l < filled; ++l) lanes[l] = x[i + l];
    store(lanes, times_sigmoid(broadcast(1.0f), load(lanes)));
    for (int l = 0; l < filled; ++l) x[i + l] = lanes[l];
  }
}

// Lanes past the end take part with the largest value, and then weigh nothing.
void softmax(float* x, int n) {
  float maximum = x[0];
  for (int i = 1; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  alignas(64) float lanes[16];
  Vec sum = zero();
  for (int i = 0; i < n; i += 16) {
    const int filled = n - i < 16 ? n - i : 16;
    for (int l = 0; l < 16; ++l) lanes[l] = l < filled ? x[i + l] : maximum;
    const Vec e = keep_range(exp_vec(sub(load(lanes), broadcast(maximum))), 0, filled, 0.0f);
    sum = add(sum, e);
    store(lanes, e);
    for (int l = 0; l < filled; ++l) x[i + l] = lanes[l];
  }
  const float total = reduce_add(sum);
  for (int i = 0; i < n; ++i) x[i] /= total;
}

// cap * tanh(x / cap), where tanh(y) = 1 - 2 / (e^(2 y) + 1). What is not finite becomes NaN.
inline Vec soft_cap_vec(Vec x, float cap) {
  const Vec e = exp_vec(mul(x, broadcast(2.0f / cap)));
  const Vec part = div(broadcast(2.0f), add(e, broadcast(1.0f)));
  return add(mul(sub(broadcast(1.0f), part), broadcast(cap)), sub(x, x));
}

void soft_cap(float* x, int n, float cap) {
  for (int i = 0; i < n; i += 16) {
    if (n - i >= 16) {
      store(x + i, soft_cap_vec(load(x + i), cap));
      continue;
    }
    alignas(64) float lanes[16] = {};
    for (int l = 0; l < n - i; ++l) lanes[l] = x[i + l];
    store(lanes, soft_cap_vec(load(lanes), cap));
    for (int l = 0; l < n - i; ++l) x[i + l] = lanes[l];
  }
}

// A block with a value that is not finite has no scale: all that is computed of it is NaN.
inline void quantize_to_nan(const Activations& x, size_t block) {
  store_int8(x.codes + block * kBlockValues, zero());
  store_int8(x.codes + block * kBlockValues + 16, zero());
  x.scales[block] = x.scaled_sums[block] = __builtin_nanf("");
  x.neg_sums[2 * block] = x.neg_sums[2 * block + 1] = 0;
}

void quantize(const Activations& x, size_t first_block, size_t last_block) {
  for (size_t b = first_block; b < last_block; ++b) {
    const float* in = x.values + b * kBlockValues;
    const Vec lo = load(in), hi = load(in + 16);
    // What is not finite differs from itself by NaN.
    if (reduce_add(add(sub(lo, lo), sub(hi, hi))) != 0.0f) {
      quantize_to_nan(x, b);
      continue;
    }
    const float largest = reduce_max(max(abs(lo), abs(hi)));
    // Smaller blocks would overflow the reciprocal; they are zero for every purpose.
    const bool tiny = largest < 1e-30f;
    const float scale = tiny ? 0.0f : largest / 127.0f;
    const Vec inverse = broadcast(tiny ? 0.0f : 127.0f / largest);
    int8_t* codes = x.codes + b * kBlockValues;
    const int32_t sum_lo = store_int8(codes, mul(lo, inverse));
    const int32_t sum_hi = store_int8(codes + 16, mul(hi, inverse));
    x.scales[b] = scale;
    x.scaled_sums[b] = scale * static_cast<float>(sum_lo + sum_hi);
    x.neg_sums[2 * b] = -sum_lo;
    x.neg_sums[2 * b + 1] = -sum_hi;
  }
}

void rope(float* head, const float* cosines, const float* sines, int half, float scale) {
  for (int i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = __builtin_fmaf(a, cosines[i], -(b * sines[i])) * scale;
    head[i + half] = __builtin_fmaf(a, sines[i], b * cosines[i]) * scale;
  }
}

}  // namespace
}  // namespace maglio

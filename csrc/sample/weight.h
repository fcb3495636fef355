// Probability weights as integers: sums of them are exact, whatever their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace maglio {

// The weight of the most probable token. A token 31.2 or more (in units of the temperature) below
// it has weight 0 and is never drawn: all of them together weigh less than 2^-24 of the row for
// any vocabulary under 2^20.
constexpr uint64_t kUnitWeight = uint64_t{1} << 44;

// exp(x) for x <= 0, and exactly 1 at 0; what is below exp(-64) counts as exp(-64).
//
// The single-precision exponential of the Cephes library (S. Moshier): argument reduction by ln 2
// in two parts and a polynomial, relative error under 2^-22. Its operations are written out and
// never fused, so every build computes the same bits.
inline float exp_nonpositive(float x) {
  x = x > -64.0f ? x : -64.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;

  uint32_t bits;  // 2^n: the low bits of `shifted` hold n
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000u + 127u) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// The sum of the weights of `size` <= 64 exponentials, each rounded to an integer.
inline uint64_t sum_weights(const float* exponentials, size_t size) {
  constexpr double kInteger = 4503599627370496.0;  // 2^52: adding it rounds to an integer
  double rounded[64];
  uint64_t bits[64];
  for (size_t i = 0; i < size; ++i) {
    rounded[i] = static_cast<double>(exponentials[i]) * static_cast<double>(kUnitWeight) + kInteger;
  }
  std::memcpy(bits, rounded, size * sizeof(double));
  uint64_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum += bits[i] - 0x4330000000000000u;
  return sum;
}

// The weight of a token whose logit is `x` temperatures above (so x <= 0) the largest.
inline uint64_t weight(float x) {
  const float exponential = exp_nonpositive(x);
  return sum_weights(&exponential, 1);
}

}  // namespace maglio

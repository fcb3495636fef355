// What replaces the C library and missing instructions, against the C library.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "check.h"
#include "gguf/half.h"
#include "math/elementary.h"
#include "simd/portable.h"

namespace {

using maglio::bits_to_float;
using maglio::float_to_bits;

bool same(float a, float b) { return (a != a && b != b) || float_to_bits(a) == float_to_bits(b); }

bool fma_is_exact(float a, float b, float c) {
  const maglio::Float4 sum =
      maglio::exact_fma(maglio::splat(a), maglio::splat(b), maglio::splat(c));
  return same(sum[0], std::fmaf(a, b, c)) && same(sum[3], sum[0]);
}

void a_fused_multiply_add_rounds_once() {
  const float special[] = {0.0f,
                           1.0f,
                           1.5f,
                           0x1p-149f,
                           0x1p-126f,
                           0x1.fffffep127f,
                           0x1.fffffep-1f,
                           0x1.000002p0f,
                           0x1p-24f,
                           0x1p-12f,
                           0x1.8p23f,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  for (float a : special) {
    for (float b : special) {
      for (float c : special) {
        for (int signs = 0; signs < 8; ++signs) {
          CHECK(fma_is_exact(signs & 1 ? -a : a, signs & 2 ? -b : b, signs & 4 ? -c : c));
        }
      }
    }
  }
  std::mt19937 rng(5);
  const auto any = [&] { return bits_to_float(static_cast<uint32_t>(rng())); };
  // Of few bits and close to each other, so that sums are often half way between two floats.
  const auto tie = [&] {
    const float mantissa = static_cast<float>(static_cast<int>(rng() % 8191) - 4095);
    return std::ldexp(mantissa, static_cast<int>(rng() % 30) - 15);
  };
  for (int i = 0; i < 200'000; ++i) {
    CHECK(fma_is_exact(any(), any(), any()));
    CHECK(fma_is_exact(tie(), tie(), tie()));
    const float a = any(), b = any();
    CHECK(fma_is_exact(a, b, -(a * b)));  // the rounding error of a product
  }
}

void halves_are_widened_exactly() {
  for (uint32_t h = 0; h < 65536; h += 4) {
    const uint16_t four[] = {static_cast<uint16_t>(h), static_cast<uint16_t>(h + 1),
                             static_cast<uint16_t>(h + 2), static_cast<uint16_t>(h + 3)};
    const maglio::Float4 wide = maglio::from_half(four);
    for (int i = 0; i < 4; ++i) CHECK(same(wide[i], maglio::half_to_float(four[i])));
  }
}

void angles_and_logarithms_are_those_of_the_c_library() {
  std::mt19937 rng(7);
  for (int i = 0; i < 200'000; ++i) {
    const double angle = std::ldexp(static_cast<double>(rng()), -(i % 32));
    if (angle < 1'000'000) {
      const maglio::CosSin at = maglio::cos_sin(i % 2 ? angle : -angle);
      CHECK(std::fabs(at.cosine - std::cos(angle)) < 1e-15);
      CHECK(std::fabs((i % 2 ? at.sine : -at.sine) - std::sin(angle)) < 1e-15);
    }
    const double x = 1.0 + angle;
    CHECK(std::fabs(maglio::natural_log(x) - std::log(x)) < 2e-15 * std::fmax(1, std::log(x)));
  }
  CHECK(maglio::cos_sin(0).cosine == 1 && maglio::cos_sin(0).sine == 0);
  CHECK(maglio::natural_log(1) == 0);
  for (double x = -699; x < 699; x += 0.0137) {
    CHECK(std::fabs(maglio::exponential(x) - std::exp(x)) < 1e-15 * std::exp(x));
  }
  CHECK(maglio::exponential(0) == 1 && maglio::exponential(-1e9) == 0);
  CHECK(std::isinf(maglio::exponential(1e9)) && std::isnan(maglio::exponential(std::nan(""))));
  const double infinity = std::numeric_limits<double>::infinity();
  for (double angle : {1e300, infinity, -infinity, infinity - infinity}) {
    CHECK(std::isnan(maglio::cos_sin(angle).cosine) && std::isnan(maglio::cos_sin(angle).sine));
  }
}

}  // namespace

int main() {
  a_fused_multiply_add_rounds_once();
  halves_are_widened_exactly();
  angles_and_logarithms_are_those_of_the_c_library();
  std::puts("arithmetic: ok");
  return 0;
}

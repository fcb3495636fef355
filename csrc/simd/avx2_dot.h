// The dot product of avx512.h on AVX2, which multiplies bytes only into 16-bit sums of two
// products.
//
// Narrow codes leave room there for several groups, so that widening to 32 bits is seldom needed.
#pragma once

#include "simd/avx2.h"
#include "simd/load.h"
#include "simd/sixteen_bits.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "avx2";
constexpr int32_t kFullBias = 128;

// 16-bit sums, two to a lane.
struct Pairs {
  __m256i lo, hi;
};

inline Pairs multiply(ByteVec codes, __m256i values) {
  return {_mm256_maddubs_epi16(codes.lo, values), _mm256_maddubs_epi16(codes.hi, values)};
}
// 2 * 255 * 127 would not fit, 2 * 128 * 127 does: codes are centred to int8, and their sign moves
// to the values.
inline __m256i multiply_centred(__m256i codes, __m256i values) {
  const __m256i centred = _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(centred), _mm256_sign_epi8(values, centred));
}
inline Pairs add(Pairs a, Pairs b) {
  return {_mm256_add_epi16(a.lo, b.lo), _mm256_add_epi16(a.hi, b.hi)};
}
inline IntVec add_lanes(IntVec acc, Pairs pairs) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(pairs.lo, ones)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(pairs.hi, ones))};
}

template <int kBits, int kGroups>
inline IntVec dot(IntVec acc, const ByteVec* codes, const int8_t* values) {
  constexpr int kFit = groups_in_16_bits(kBits, 2);
  Pairs sum{};
  for (int g = 0; g < kGroups; ++g) {
    const __m256i a = _mm256_set1_epi32(load_int32(values + 4 * g));
    const Pairs products =
        kBits == 8 ? Pairs{multiply_centred(codes[g].lo, a), multiply_centred(codes[g].hi, a)}
                   : multiply(codes[g], a);
    sum = g % kFit == 0 ? products : add(sum, products);
    if ((g + 1) % kFit == 0 || g + 1 == kGroups) acc = add_lanes(acc, sum);
  }
  return acc;
}

}  // namespace
}  // namespace maglio

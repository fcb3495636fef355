// 16-lane vectors on AVX-512 with VNNI. Same operations, to the bit, as avx2.h and portable.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "simd/load.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "avx512";

using Vec = __m512;       // 16 floats
using IntVec = __m512i;   // 16 int32
using ByteVec = __m512i;  // 64 unsigned bytes
using WordVec = __m512i;  // 32 int16

inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec broadcast(float x) { return _mm512_set1_ps(x); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline Vec load_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_half(uint16_t* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vec load_bfloat(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }    // a * b + c
inline Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
// a > b ? a : b, so that the second operand wins on NaN.
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec abs(Vec a) { return _mm512_abs_ps(a); }

// The fixed tree of a 16-lane reduction: lane i with i + 8, then i + 4, i + 2, i + 1.
inline float reduce_add(Vec v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_max(Vec v) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Lanes lo <= i < hi keep v, the others become `other`.
inline Vec keep_range(Vec v, int lo, int hi, float other) {
  const __mmask16 keep = static_cast<__mmask16>(((1u << hi) - 1u) & ~((1u << lo) - 1u));
  return _mm512_mask_blend_ps(keep, _mm512_set1_ps(other), v);
}

// Rounds to the nearest integer, ties to even; and 2^n for such an integral n in [-126, 127].
inline Vec round_nearest(Vec v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec exp2_integral(Vec n) {
  const __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
}

// Stores 16 values rounded to int8 and returns their sum. |v| <= 127.49.
inline int32_t store_int8(int8_t* p, Vec v) {
  const __m512i ints = _mm512_cvtps_epi32(v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(ints));
  return _mm512_reduce_add_epi32(ints);
}

// Stores 16 values rounded to int16. |v| <= 32767.49.
inline void store_int16(int16_t* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)));
}

inline IntVec int_broadcast(int32_t x) { return _mm512_set1_epi32(x); }
inline IntVec int_shift_left(IntVec v, int bits) { return _mm512_slli_epi32(v, bits); }
inline Vec to_float(IntVec v) { return _mm512_cvtepi32_ps(v); }
inline ByteVec load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline void store_bytes(uint8_t* p, ByteVec v) { _mm512_storeu_si512(p, v); }
// 16 signed bytes, a lane each.
inline IntVec load_int8(const uint8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// Moves bits to higher places, or to lower ones where kBy < 0. What enters a byte from
// the next one is nobody's: it has to be masked off.
template <int kBy>
inline ByteVec move_bits(ByteVec v) {
  if constexpr (kBy > 0) return _mm512_slli_epi16(v, kBy);
  if constexpr (kBy < 0) return _mm512_srli_epi16(v, -kBy);
  return v;
}
// The bits of each byte that `mask` has; and `a` with those of `b`.
inline ByteVec and_mask(ByteVec v, int mask) {
  return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask)));
}
inline ByteVec or_masked(ByteVec a, ByteVec b, int mask) {
  constexpr int kOrAnd = 0xF8;  // a | (b & mask)
  return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8(static_cast<char>(mask)), kOrAnd);
}
// Adds `value` to the bytes whose byte of `plane` has the bit `bit`.
inline ByteVec add_where(ByteVec v, ByteVec plane, int bit, int value) {
  const __mmask64 set = _mm512_test_epi8_mask(plane, _mm512_set1_epi8(static_cast<char>(1 << bit)));
  return _mm512_mask_add_epi8(v, set, v, _mm512_set1_epi8(static_cast<char>(value)));
}
// Each byte less `value`, modulo 256.
inline ByteVec sub_bytes(ByteVec v, int value) {
  return _mm512_sub_epi8(v, _mm512_set1_epi8(static_cast<char>(value)));
}
// A table of 16 bytes, and its entries that codes below 16 choose.
inline ByteVec load_table(const uint8_t* p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline ByteVec look_up(ByteVec table, ByteVec codes) { return _mm512_shuffle_epi8(table, codes); }

// Lane i of the result: acc[i] + sum over g < kGroups and t < 4 of codes[g][4i + t] * values[4g +
// t], where values are in [-127, 127] and codes are unsigned and below 2^kBits; of 8 bits,
// kFullBias is taken off them.
constexpr int32_t kFullBias = 0;
template <int kBits, int kGroups>
inline IntVec dot(IntVec acc, const ByteVec* codes, const int8_t* values) {
  for (int g = 0; g < kGroups; ++g) {
    acc = _mm512_dpbusd_epi32(acc, codes[g], _mm512_set1_epi32(load_int32(values + 4 * g)));
  }
  return acc;
}

// 32 int8 as words; and lane i of the result: acc[i] + sum over t < 2 of words[2i + t] * a[t],
// where `a` is two int16.
inline WordVec widen_bytes(const int8_t* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline IntVec dot_words(IntVec acc, WordVec words, int32_t a) {
  return _mm512_dpwssd_epi32(acc, words, _mm512_set1_epi32(a));
}

}  // namespace
}  // namespace maglio

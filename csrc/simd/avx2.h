// 16-lane vectors on AVX2, FMA and F16C, as two halves. Same operations as avx512.h, but for the
// dot product: avx2_dot.h and avx_vnni_dot.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace maglio {
namespace {

struct Vec {
  __m256 lo, hi;
};
struct IntVec {
  __m256i lo, hi;
};
struct ByteVec {
  __m256i lo, hi;
};
struct WordVec {
  __m256i lo, hi;
};

inline Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Vec broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
inline __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline Vec load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
}
inline void store_half(uint16_t* p, Vec v) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v.lo, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(v.hi, kNearest));
}
inline __m256 widen_bfloat(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec load_bfloat(const uint16_t* p) {
  return {widen_bfloat(load_128(p)), widen_bfloat(load_128(p + 8))};
}
inline Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vec fnma(Vec a, Vec b, Vec c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}

inline float reduce_add(Vec v) {
  const __m256 eight = _mm256_add_ps(v.lo, v.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_max(Vec v) {
  const __m256 eight = _mm256_max_ps(v.lo, v.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline __m256 keep_lanes(__m256 v, __m256i lanes, int lo, int hi, __m256 other) {
  const __m256i from = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(lo - 1));
  const __m256i to = _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), lanes);
  return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(_mm256_and_si256(from, to)));
}
inline Vec keep_range(Vec v, int lo, int hi, float other) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 fill = _mm256_set1_ps(other);
  return {keep_lanes(v.lo, lanes, lo, hi, fill), keep_lanes(v.hi, lanes, lo - 8, hi - 8, fill)};
}

inline Vec round_nearest(Vec v) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(v.lo, kNearest), _mm256_round_ps(v.hi, kNearest)};
}
inline __m256 exp2_half(__m256 n) {
  const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}
inline Vec exp2_integral(Vec n) { return {exp2_half(n.lo), exp2_half(n.hi)}; }

inline int32_t sum_lanes(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}
// packs works within 128-bit halves; the permutation puts the quarters back in order.
inline __m256i pack_words(__m256i lo, __m256i hi) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xD8);
}
inline int32_t store_int8(int8_t* p, Vec v) {
  const __m256i lo = _mm256_cvtps_epi32(v.lo), hi = _mm256_cvtps_epi32(v.hi);
  const __m256i words = pack_words(lo, hi);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  return sum_lanes(_mm256_add_epi32(lo, hi));
}

inline void store_int16(int16_t* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      pack_words(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi)));
}

inline IntVec int_broadcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline IntVec int_shift_left(IntVec v, int bits) {
  return {_mm256_slli_epi32(v.lo, bits), _mm256_slli_epi32(v.hi, bits)};
}
inline Vec to_float(IntVec v) { return {_mm256_cvtepi32_ps(v.lo), _mm256_cvtepi32_ps(v.hi)}; }
inline ByteVec load_bytes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline void store_bytes(uint8_t* p, ByteVec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.hi);
}
inline __m128i load_64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
inline IntVec load_int8(const uint8_t* p) {
  return {_mm256_cvtepi8_epi32(load_64(p)), _mm256_cvtepi8_epi32(load_64(p + 8))};
}
inline __m256i all_bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
template <int kBy>
inline ByteVec move_bits(ByteVec v) {
  if constexpr (kBy > 0) return {_mm256_slli_epi16(v.lo, kBy), _mm256_slli_epi16(v.hi, kBy)};
  if constexpr (kBy < 0) return {_mm256_srli_epi16(v.lo, -kBy), _mm256_srli_epi16(v.hi, -kBy)};
  return v;
}
inline ByteVec and_mask(ByteVec v, int mask) {
  return {_mm256_and_si256(v.lo, all_bytes(mask)), _mm256_and_si256(v.hi, all_bytes(mask))};
}
inline ByteVec or_masked(ByteVec a, ByteVec b, int mask) {
  const ByteVec bits = and_mask(b, mask);
  return {_mm256_or_si256(a.lo, bits.lo), _mm256_or_si256(a.hi, bits.hi)};
}
inline __m256i add_where_half(__m256i v, __m256i plane, __m256i bit, __m256i value) {
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(plane, bit), bit);
  return _mm256_add_epi8(v, _mm256_and_si256(set, value));
}
inline ByteVec add_where(ByteVec v, ByteVec plane, int bit, int value) {
  const __m256i bits = all_bytes(1 << bit), values = all_bytes(value);
  return {add_where_half(v.lo, plane.lo, bits, values),
          add_where_half(v.hi, plane.hi, bits, values)};
}
inline ByteVec sub_bytes(ByteVec v, int value) {
  return {_mm256_sub_epi8(v.lo, all_bytes(value)), _mm256_sub_epi8(v.hi, all_bytes(value))};
}
inline ByteVec load_table(const uint8_t* p) {
  const __m256i twice = _mm256_broadcastsi128_si256(load_128(p));
  return {twice, twice};
}
inline ByteVec look_up(ByteVec table, ByteVec codes) {
  return {_mm256_shuffle_epi8(table.lo, codes.lo), _mm256_shuffle_epi8(table.hi, codes.hi)};
}

inline WordVec widen_bytes(const int8_t* p) {
  return {_mm256_cvtepi8_epi16(load_128(p)), _mm256_cvtepi8_epi16(load_128(p + 16))};
}
inline IntVec dot_words(IntVec acc, WordVec words, int32_t a) {
  const __m256i values = _mm256_set1_epi32(a);
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(words.lo, values)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(words.hi, values))};
}

}  // namespace
}  // namespace maglio

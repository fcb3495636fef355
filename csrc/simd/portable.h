// 16-lane vectors in plain C++, for any machine: the slow, obvious definition of avx512.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "gguf/half.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "portable";
constexpr int kLanes = 16;

struct Vec {
  float v[kLanes];
};
struct IntVec {
  int32_t v[kLanes];
};
struct ByteVec {
  uint8_t bytes[64];
};
struct WordVec {
  int16_t words[32];
};

template <typename F>
inline Vec each(F f) {
  Vec out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = f(i);
  return out;
}

inline Vec broadcast(float x) {
  return each([&](int) { return x; });
}
inline Vec zero() { return broadcast(0.0f); }
inline Vec load(const float* p) {
  return each([&](int i) { return p[i]; });
}
inline void store(float* p, Vec v) { std::memcpy(p, v.v, sizeof(v.v)); }
inline Vec load_half(const uint16_t* p) {
  return each([&](int i) { return half_to_float(p[i]); });
}
inline void store_half(uint16_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(v.v[i]);
}
inline Vec load_bfloat(const uint16_t* p) {
  return each([&](int i) { return bfloat_to_float(p[i]); });
}
inline Vec add(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec sub(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec mul(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Vec div(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return each([&](int i) { return std::fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline Vec fnma(Vec a, Vec b, Vec c) {
  return each([&](int i) { return std::fmaf(-a.v[i], b.v[i], c.v[i]); });
}
inline Vec max(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec min(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec abs(Vec a) {
  return each([&](int i) { return std::fabs(a.v[i]); });
}

inline float reduce_add(Vec v) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v.v[i] += v.v[i + width];
  }
  return v.v[0];
}
inline float reduce_max(Vec v) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v.v[i] = v.v[i] > v.v[i + width] ? v.v[i] : v.v[i + width];
  }
  return v.v[0];
}

inline Vec keep_range(Vec v, int lo, int hi, float other) {
  return each([&](int i) { return i >= lo && i < hi ? v.v[i] : other; });
}
inline Vec round_nearest(Vec v) {
  return each([&](int i) { return std::nearbyintf(v.v[i]); });
}
inline Vec exp2_integral(Vec n) {
  return each([&](int i) {
    const uint32_t bits = static_cast<uint32_t>(std::lrintf(n.v[i]) + 127) << 23;
    float out;
    std::memcpy(&out, &bits, sizeof(out));
    return out;
  });
}
inline int32_t store_int8(int8_t* p, Vec v) {
  int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) {
    p[i] = static_cast<int8_t>(std::lrintf(v.v[i]));
    sum += p[i];
  }
  return sum;
}

inline void store_int16(int16_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int16_t>(std::lrintf(v.v[i]));
}

inline IntVec int_broadcast(int32_t x) {
  IntVec out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = x;
  return out;
}
inline IntVec int_shift_left(IntVec v, int bits) {
  for (int i = 0; i < kLanes; ++i) v.v[i] *= 1 << bits;
  return v;
}
inline Vec to_float(IntVec v) {
  return each([&](int i) { return static_cast<float>(v.v[i]); });
}
inline ByteVec load_bytes(const uint8_t* p) {
  ByteVec out;
  std::memcpy(out.bytes, p, sizeof(out.bytes));
  return out;
}
inline void store_bytes(uint8_t* p, ByteVec v) { std::memcpy(p, v.bytes, sizeof(v.bytes)); }
inline IntVec load_int8(const uint8_t* p) {
  IntVec out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = static_cast<int8_t>(p[i]);
  return out;
}

template <typename F>
inline ByteVec each_byte(F f) {
  ByteVec out;
  for (int i = 0; i < 64; ++i) out.bytes[i] = static_cast<uint8_t>(f(i));
  return out;
}
template <int kBy>
inline ByteVec move_bits(ByteVec v) {
  return each_byte(
      [&](int i) { return kBy > 0 ? v.bytes[i] << (kBy & 7) : v.bytes[i] >> (-kBy & 7); });
}
inline ByteVec and_mask(ByteVec v, int mask) {
  return each_byte([&](int i) { return v.bytes[i] & mask; });
}
inline ByteVec or_masked(ByteVec a, ByteVec b, int mask) {
  return each_byte([&](int i) { return a.bytes[i] | (b.bytes[i] & mask); });
}
inline ByteVec add_where(ByteVec v, ByteVec plane, int bit, int value) {
  return each_byte([&](int i) { return v.bytes[i] + ((plane.bytes[i] >> bit) & 1) * value; });
}
inline ByteVec sub_bytes(ByteVec v, int value) {
  return each_byte([&](int i) { return v.bytes[i] - value; });
}
inline ByteVec load_table(const uint8_t* p) {
  return each_byte([&](int i) { return p[i % 16]; });
}
inline ByteVec look_up(ByteVec table, ByteVec codes) {
  return each_byte([&](int i) { return table.bytes[codes.bytes[i]]; });
}

constexpr int32_t kFullBias = 0;
inline IntVec dot_full(IntVec acc, ByteVec codes, int32_t a) {
  int8_t values[4];
  std::memcpy(values, &a, sizeof(values));
  for (int i = 0; i < kLanes; ++i) {
    for (int t = 0; t < 4; ++t) acc.v[i] += codes.bytes[4 * i + t] * values[t];
  }
  return acc;
}
inline IntVec dot_small(IntVec acc, ByteVec codes, int32_t a) { return dot_full(acc, codes, a); }

inline WordVec widen_bytes(const int8_t* p) {
  WordVec out;
  for (int i = 0; i < 32; ++i) out.words[i] = p[i];
  return out;
}
inline IntVec dot_words(IntVec acc, WordVec words, int32_t a) {
  int16_t values[2];
  std::memcpy(values, &a, sizeof(values));
  for (int i = 0; i < kLanes; ++i) {
    for (int t = 0; t < 2; ++t) acc.v[i] += words.words[2 * i + t] * values[t];
  }
  return acc;
}

}  // namespace
}  // namespace maglio

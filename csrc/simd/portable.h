// 16-lane vectors for any little-endian machine, as four quarters that compilers know how to make
// vector code of (GCC's vector extension, which Clang has too). Same operations as avx512.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "gguf/half.h"
#include "simd/exact_fma.h"
#include "simd/load.h"
#include "simd/sixteen_bits.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "portable";

using Int4 = Int32x4;
using Bits4 = uint32_t __attribute__((vector_size(16)));
using Half4 = uint16_t __attribute__((vector_size(8)));
using Short8 = int16_t __attribute__((vector_size(16)));
using Bits8 = uint16_t __attribute__((vector_size(16)));
using Byte16 = uint8_t __attribute__((vector_size(16)));

struct Vec {
  Float4 v[4];
};
struct IntVec {
  Int4 v[4];
};
struct ByteVec {
  Byte16 v[4];
};

// The same bits as another type.
template <typename To, typename From>
inline To as(From v) {
  return reinterpret_cast<To>(v);
}
template <typename To>
inline To read(const void* p) {
  To out;
  std::memcpy(&out, p, sizeof(out));
  return out;
}

template <typename F>
inline Vec each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
inline Float4 splat(float x) { return Float4{x, x, x, x}; }

inline Vec broadcast(float x) {
  return each([&](int) { return splat(x); });
}
inline Vec zero() { return broadcast(0.0f); }
inline Vec load(const float* p) { return read<Vec>(p); }
inline void store(float* p, Vec v) { std::memcpy(p, v.v, sizeof(v.v)); }

// Scaling by 2^112 moves the exponent, also of a subnormal half, to where a float has it; that of
// what is not finite is set after that.
inline Float4 from_half(const uint16_t* p) {
  const Bits4 half = __builtin_convertvector(read<Half4>(p), Bits4);
  const Float4 scaled = as<Float4>((half & 0x7FFF) << 13) * splat(0x1p112f);
  const Bits4 special = as<Bits4>((half & 0x7C00) == 0x7C00) & 0x7F800000;
  return as<Float4>(as<Bits4>(scaled) | special | (half & 0x8000) << 16);
}
inline Vec load_half(const uint16_t* p) {
  return each([&](int i) { return from_half(p + 4 * i); });
}
inline void store_half(uint16_t* p, Vec v) {
  float lanes[16];
  store(lanes, v);
  for (int i = 0; i < 16; ++i) p[i] = float_to_half(lanes[i]);
}
inline Vec load_bfloat(const uint16_t* p) {
  return each([&](int i) {
    return as<Float4>(__builtin_convertvector(read<Half4>(p + 4 * i), Bits4) << 16);
  });
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
  return each([&](int i) { return exact_fma(a.v[i], b.v[i], c.v[i]); });
}
inline Vec fnma(Vec a, Vec b, Vec c) {
  return each([&](int i) { return exact_fma(-a.v[i], b.v[i], c.v[i]); });
}
inline Float4 max_quarter(Float4 a, Float4 b) { return a > b ? a : b; }
inline Vec max(Vec a, Vec b) {
  return each([&](int i) { return max_quarter(a.v[i], b.v[i]); });
}
inline Vec min(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec abs(Vec a) {
  return each([&](int i) { return as<Float4>(as<Bits4>(a.v[i]) & 0x7FFFFFFF); });
}

inline float reduce_add(Vec v) {
  const Float4 four = (v.v[0] + v.v[2]) + (v.v[1] + v.v[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float reduce_max(Vec v) {
  const Float4 four = max_quarter(max_quarter(v.v[0], v.v[2]), max_quarter(v.v[1], v.v[3]));
  const float even = four[0] > four[2] ? four[0] : four[2];
  const float odd = four[1] > four[3] ? four[1] : four[3];
  return even > odd ? even : odd;
}

inline Vec keep_range(Vec v, int lo, int hi, float other) {
  return each([&](int i) {
    const Int4 lanes = Int4{0, 1, 2, 3} + 4 * i;
    return (lanes >= lo) & (lanes < hi) ? v.v[i] : splat(other);
  });
}

// Of |v| < 2^22: adding 1.5 * 2^23 leaves no bits for fractions.
inline Float4 round_quarter(Float4 v) {
  const Float4 magic = splat(0x1.8p23f);
  const Bits4 sign = as<Bits4>(v) & 0x80000000;
  return as<Float4>(as<Bits4>((v + magic) - magic) | sign);
}
inline Vec round_nearest(Vec v) {
  return each([&](int i) { return round_quarter(v.v[i]); });
}
inline Vec exp2_integral(Vec n) {
  return each(
      [&](int i) { return as<Float4>((__builtin_convertvector(n.v[i], Int4) + 127) << 23); });
}
inline int32_t store_int8(int8_t* p, Vec v) {
  Int4 sum{};
  for (int i = 0; i < 4; ++i) {
    const Int4 ints = __builtin_convertvector(round_quarter(v.v[i]), Int4);
    for (int l = 0; l < 4; ++l) p[4 * i + l] = static_cast<int8_t>(ints[l]);
    sum += ints;
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

inline IntVec int_broadcast(int32_t x) {
  const Int4 v{x, x, x, x};
  return {{v, v, v, v}};
}
inline IntVec int_shift_left(IntVec v, int bits) {
  for (Int4& quarter : v.v) quarter <<= bits;
  return v;
}
inline Vec to_float(IntVec v) {
  return each([&](int i) { return __builtin_convertvector(v.v[i], Float4); });
}
inline ByteVec load_bytes(const uint8_t* p) { return read<ByteVec>(p); }
inline void store_bytes(uint8_t* p, ByteVec v) { std::memcpy(p, v.v, sizeof(v.v)); }
inline IntVec load_int8(const uint8_t* p) {
  using Sign4 = int8_t __attribute__((vector_size(4)));
  IntVec out;
  for (int i = 0; i < 4; ++i) out.v[i] = __builtin_convertvector(read<Sign4>(p + 4 * i), Int4);
  return out;
}

template <typename F>
inline ByteVec each_byte(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
template <int kBy>
inline ByteVec move_bits(ByteVec v) {
  return each_byte([&](int i) { return kBy > 0 ? v.v[i] << (kBy & 7) : v.v[i] >> (-kBy & 7); });
}
inline ByteVec and_mask(ByteVec v, int mask) {
  const uint8_t bits = static_cast<uint8_t>(mask);
  return each_byte([&](int i) { return v.v[i] & bits; });
}
inline ByteVec or_masked(ByteVec a, ByteVec b, int mask) {
  const uint8_t bits = static_cast<uint8_t>(mask);
  return each_byte([&](int i) { return a.v[i] | (b.v[i] & bits); });
}
inline ByteVec add_where(ByteVec v, ByteVec plane, int bit, int value) {
  const uint8_t mask = static_cast<uint8_t>(1 << bit), bits = static_cast<uint8_t>(value);
  return each_byte([&](int i) { return v.v[i] + (as<Byte16>((plane.v[i] & mask) != 0) & bits); });
}
inline ByteVec sub_bytes(ByteVec v, int value) {
  const uint8_t bits = static_cast<uint8_t>(value);
  return each_byte([&](int i) { return v.v[i] - bits; });
}
inline ByteVec load_table(const uint8_t* p) {
  return each_byte([&](int) { return read<Byte16>(p); });
}
inline ByteVec look_up(ByteVec table, ByteVec codes) {
  for (Byte16& quarter : codes.v) {
    for (int i = 0; i < 16; ++i) quarter[i] = table.v[0][quarter[i]];
  }
  return codes;
}

struct WordVec {
  Short8 v[4];
};
inline void store_int16(int16_t* p, Vec v) {
  for (int i = 0; i < 4; ++i) {
    const Int4 ints = __builtin_convertvector(round_quarter(v.v[i]), Int4);
    for (int l = 0; l < 4; ++l) p[4 * i + l] = static_cast<int16_t>(ints[l]);
  }
}
inline WordVec widen_bytes(const int8_t* p) {
  using Sign8 = int8_t __attribute__((vector_size(8)));
  WordVec out;
  for (int i = 0; i < 4; ++i) out.v[i] = __builtin_convertvector(read<Sign8>(p + 8 * i), Short8);
  return out;
}
inline IntVec dot_words(IntVec acc, WordVec words, int32_t a) {
  const int32_t first = static_cast<int16_t>(a), second = a >> 16;
  for (int i = 0; i < 4; ++i) {
    const Int4 two = as<Int4>(words.v[i]);
    acc.v[i] += ((two << 16) >> 16) * first + (two >> 16) * second;
  }
  return acc;
}

// Codes of 8 bits are centred, so that the products of two of them can be added in 16 bits.
constexpr int32_t kFullBias = 128;

template <int kBits, int kGroups>
inline IntVec dot(IntVec acc, const ByteVec* codes, const int8_t* values) {
  constexpr int kFit = groups_in_16_bits(kBits, 2);
  constexpr int16_t kBias = kBits == 8 ? 128 : 0;
  Short8 sums[4]{};
  for (int g = 0; g < kGroups; ++g) {
    const int32_t a = load_int32(values + 4 * g);
    const Short8 four = as<Short8>(Int4{a, a, a, a});
    const Short8 even = (four << 8) >> 8, odd = four >> 8;  // int8 0 and 2, 1 and 3
    for (int i = 0; i < 4; ++i) {
      const Bits8 both = as<Bits8>(codes[g].v[i]);
      const Short8 pairs =
          (as<Short8>(both & 255) - kBias) * even + (as<Short8>(both >> 8) - kBias) * odd;
      sums[i] = g % kFit == 0 ? pairs : sums[i] + pairs;
      if ((g + 1) % kFit == 0 || g + 1 == kGroups) {
        const Int4 two = as<Int4>(sums[i]);
        acc.v[i] += ((two << 16) >> 16) + (two >> 16);
      }
    }
  }
  return acc;
}

}  // namespace
}  // namespace maglio

// 16-lane vectors on 64-bit Arm, as four quarters. Same operations as avx512.h, but for the dot
// product: neon_dot.h and neon_no_dot.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace maglio {
namespace {

struct Vec {
  float32x4_t v[4];
};
struct IntVec {
  int32x4_t v[4];
};
struct ByteVec {
  uint8x16_t v[4];
};

template <typename F>
inline Vec each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}

inline Vec broadcast(float x) {
  return each([&](int) { return vdupq_n_f32(x); });
}
inline Vec zero() { return broadcast(0.0f); }
inline Vec load(const float* p) {
  return each([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float* p, Vec v) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v.v[i]);
}
inline Vec load_half(const uint16_t* p) {
  return each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline void store_half(uint16_t* p, Vec v) {
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.v[i])));
}
inline Vec load_bfloat(const uint16_t* p) {
  return each([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
inline Vec add(Vec a, Vec b) {
  return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline Vec sub(Vec a, Vec b) {
  return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline Vec mul(Vec a, Vec b) {
  return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline Vec div(Vec a, Vec b) {
  return each([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
inline Vec fnma(Vec a, Vec b, Vec c) {
  return each([&](int i) { return vfmsq_f32(c.v[i], a.v[i], b.v[i]); });
}
// Arm's own maximum and minimum treat NaN and the sign of zero in another way.
inline float32x4_t max_quarter(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
inline float32x4_t min_quarter(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcltq_f32(a, b), a, b);
}
inline Vec max(Vec a, Vec b) {
  return each([&](int i) { return max_quarter(a.v[i], b.v[i]); });
}
inline Vec min(Vec a, Vec b) {
  return each([&](int i) { return min_quarter(a.v[i], b.v[i]); });
}
inline Vec abs(Vec a) {
  return each([&](int i) { return vabsq_f32(a.v[i]); });
}

inline float reduce_add(Vec v) {
  const float32x4_t four = vaddq_f32(vaddq_f32(v.v[0], v.v[2]), vaddq_f32(v.v[1], v.v[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float reduce_max(Vec v) {
  const float32x4_t four = max_quarter(max_quarter(v.v[0], v.v[2]), max_quarter(v.v[1], v.v[3]));
  const float32x4_t two = max_quarter(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(max_quarter(two, vextq_f32(two, two, 1)), 0);
}

inline Vec keep_range(Vec v, int lo, int hi, float other) {
  constexpr int32_t kFirstLanes[4] = {0, 1, 2, 3};
  const int32x4_t first = vld1q_s32(kFirstLanes);
  const float32x4_t fill = vdupq_n_f32(other);
  return each([&](int i) {
    const int32x4_t lanes = vaddq_s32(first, vdupq_n_s32(4 * i));
    const uint32x4_t keep =
        vandq_u32(vcgeq_s32(lanes, vdupq_n_s32(lo)), vcltq_s32(lanes, vdupq_n_s32(hi)));
    return vbslq_f32(keep, v.v[i], fill);
  });
}

inline Vec round_nearest(Vec v) {
  return each([&](int i) { return vrndnq_f32(v.v[i]); });
}
inline Vec exp2_integral(Vec n) {
  return each([&](int i) {
    const int32x4_t bits = vaddq_s32(vcvtnq_s32_f32(n.v[i]), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(bits, 23));
  });
}

inline int32_t store_int8(int8_t* p, Vec v) {
  int32x4_t ints[4];
  for (int i = 0; i < 4; ++i) ints[i] = vcvtnq_s32_f32(v.v[i]);
  const int16x8_t lo = vcombine_s16(vmovn_s32(ints[0]), vmovn_s32(ints[1]));
  const int16x8_t hi = vcombine_s16(vmovn_s32(ints[2]), vmovn_s32(ints[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
  return vaddvq_s32(vaddq_s32(vaddq_s32(ints[0], ints[1]), vaddq_s32(ints[2], ints[3])));
}

inline IntVec int_broadcast(int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {{v, v, v, v}};
}
inline IntVec int_shift_left(IntVec v, int bits) {
  for (int32x4_t& quarter : v.v) quarter = vshlq_s32(quarter, vdupq_n_s32(bits));
  return v;
}
inline Vec to_float(IntVec v) {
  return each([&](int i) { return vcvtq_f32_s32(v.v[i]); });
}
inline ByteVec load_bytes(const uint8_t* p) {
  return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
inline void store_bytes(uint8_t* p, ByteVec v) {
  for (int i = 0; i < 4; ++i) vst1q_u8(p + 16 * i, v.v[i]);
}
inline IntVec load_int8(const uint8_t* p) {
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
  const int16x8_t lo = vmovl_s8(vget_low_s8(bytes)), hi = vmovl_high_s8(bytes);
  return {{vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo), vmovl_s16(vget_low_s16(hi)),
           vmovl_high_s16(hi)}};
}

template <typename F>
inline ByteVec each_byte(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
template <int kBy>
inline ByteVec move_bits(ByteVec v) {
  return each_byte([&](int i) { return vshlq_u8(v.v[i], vdupq_n_s8(kBy)); });
}
inline uint8x16_t all_bytes(int value) { return vdupq_n_u8(static_cast<uint8_t>(value)); }
inline ByteVec and_mask(ByteVec v, int mask) {
  return each_byte([&](int i) { return vandq_u8(v.v[i], all_bytes(mask)); });
}
inline ByteVec or_masked(ByteVec a, ByteVec b, int mask) {
  return each_byte([&](int i) { return vorrq_u8(a.v[i], vandq_u8(b.v[i], all_bytes(mask))); });
}
inline ByteVec add_where(ByteVec v, ByteVec plane, int bit, int value) {
  return each_byte([&](int i) {
    const uint8x16_t set = vtstq_u8(plane.v[i], all_bytes(1 << bit));
    return vaddq_u8(v.v[i], vandq_u8(set, all_bytes(value)));
  });
}
inline ByteVec sub_bytes(ByteVec v, int value) {
  return each_byte([&](int i) { return vsubq_u8(v.v[i], all_bytes(value)); });
}
inline ByteVec load_table(const uint8_t* p) {
  return each_byte([&](int) { return vld1q_u8(p); });
}
inline ByteVec look_up(ByteVec table, ByteVec codes) {
  return each_byte([&](int i) { return vqtbl1q_u8(table.v[i], codes.v[i]); });
}

struct WordVec {
  int16x8_t v[4];
};
inline void store_int16(int16_t* p, Vec v) {
  for (int i = 0; i < 4; ++i) vst1_s16(p + 4 * i, vmovn_s32(vcvtnq_s32_f32(v.v[i])));
}
inline WordVec widen_bytes(const int8_t* p) {
  WordVec out;
  for (int i = 0; i < 4; ++i) out.v[i] = vmovl_s8(vld1_s8(p + 8 * i));
  return out;
}
inline IntVec dot_words(IntVec acc, WordVec words, int32_t a) {
  const int16x8_t values = vreinterpretq_s16_s32(vdupq_n_s32(a));
  for (int i = 0; i < 4; ++i) {
    const int32x4_t lo = vmull_s16(vget_low_s16(words.v[i]), vget_low_s16(values));
    acc.v[i] = vaddq_s32(acc.v[i], vpaddq_s32(lo, vmull_high_s16(words.v[i], values)));
  }
  return acc;
}

// Codes as signed numbers: those of 8 bits around zero.
constexpr int32_t kFullBias = 128;
template <int kBits>
inline int8x16_t as_signed(uint8x16_t codes) {
  if constexpr (kBits == 8) codes = veorq_u8(codes, vdupq_n_u8(0x80));
  return vreinterpretq_s8_u8(codes);
}

}  // namespace
}  // namespace maglio

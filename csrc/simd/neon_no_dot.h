// The dot product of avx512.h on Arm processors without an instruction for it.
//
// Products are added to 16 bits as long as they fit there.
#pragma once

#include "simd/load.h"
#include "simd/neon.h"
#include "simd/sixteen_bits.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "neon";

// The sums of four neighbours of 16.
inline int32x4_t sum_fours(int16x8_t lo, int16x8_t hi) {
  return vpaddq_s32(vpaddlq_s16(lo), vpaddlq_s16(hi));
}

template <int kBits, int kGroups>
inline IntVec dot(IntVec acc, const ByteVec* codes, const int8_t* values) {
  constexpr int kFit = groups_in_16_bits(kBits, 1);
  for (int i = 0; i < 4; ++i) {
    int16x8_t lo{}, hi{};
    for (int g = 0; g < kGroups; ++g) {
      const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(load_int32(values + 4 * g)));
      const int8x16_t c = as_signed<kBits>(codes[g].v[i]);
      if (g % kFit == 0) {
        lo = vmull_s8(vget_low_s8(c), vget_low_s8(a));
        hi = vmull_high_s8(c, a);
      } else {
        lo = vmlal_s8(lo, vget_low_s8(c), vget_low_s8(a));
        hi = vmlal_high_s8(hi, c, a);
      }
      if ((g + 1) % kFit == 0 || g + 1 == kGroups) {
        acc.v[i] = vaddq_s32(acc.v[i], sum_fours(lo, hi));
      }
    }
  }
  return acc;
}

}  // namespace
}  // namespace maglio

// The dot product of avx512.h with Armv8.2's instruction for it.
#pragma once

#include "simd/load.h"
#include "simd/neon.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "neon_dot";

template <int kBits, int kGroups>
inline IntVec dot(IntVec acc, const ByteVec* codes, const int8_t* values) {
  for (int g = 0; g < kGroups; ++g) {
    const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(load_int32(values + 4 * g)));
    for (int i = 0; i < 4; ++i) {
      acc.v[i] = vdotq_s32(acc.v[i], as_signed<kBits>(codes[g].v[i]), a);
    }
  }
  return acc;
}

}  // namespace
}  // namespace maglio

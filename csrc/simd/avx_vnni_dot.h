// The dot product of avx512.h on AVX-VNNI, for processors with AVX2 and without AVX-512.
#pragma once

#include "simd/avx2.h"
#include "simd/load.h"

namespace maglio {
namespace {

constexpr const char* kIsaName = "avx_vnni";
constexpr int32_t kFullBias = 0;

template <int kBits, int kGroups>
inline IntVec dot(IntVec acc, const ByteVec* codes, const int8_t* values) {
  for (int g = 0; g < kGroups; ++g) {
    const __m256i a = _mm256_set1_epi32(load_int32(values + 4 * g));
    acc = {_mm256_dpbusd_avx_epi32(acc.lo, codes[g].lo, a),
           _mm256_dpbusd_avx_epi32(acc.hi, codes[g].hi, a)};
  }
  return acc;
}

}  // namespace
}  // namespace maglio

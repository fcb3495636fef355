// Four fused multiply-adds where the processor has no instruction for them.
#pragma once

#include <cstdint>
#include <cstring>

namespace maglio {
namespace {

using Float2 = float __attribute__((vector_size(8)));
using Float4 = float __attribute__((vector_size(16)));
using Double2 = double __attribute__((vector_size(16)));
using Int32x4 = int32_t __attribute__((vector_size(16)));
using Int64x2 = int64_t __attribute__((vector_size(16)));

struct Double4 {
  Double2 lo, hi;
};

inline Double2 widen_two(Float4 v) {
  Float2 two;
  std::memcpy(&two, &v, sizeof(two));
  return __builtin_convertvector(two, Double2);
}
inline Double4 widen(Float4 v) { return {widen_two(v), widen_two(Float4{v[2], v[3], v[2], v[3]})}; }
inline Float4 narrow(Double4 v) {
  const Float2 lo = __builtin_convertvector(v.lo, Float2),
               hi = __builtin_convertvector(v.hi, Float2);
  return Float4{lo[0], lo[1], hi[0], hi[1]};
}

// Where rounding to a float could go wrong because the sum is rounded already: lanes that are half
// way between two floats, or too small for a float of full precision.
inline Int64x2 is_delicate(Double2 sum) {
  const Int32x4 bits = reinterpret_cast<Int32x4>(sum);  // the lower half of a lane first
  const Int32x4 half_way =
      (bits & Int32x4{0x1FFFFFFF, 0, 0x1FFFFFFF, 0}) == Int32x4{0x10000000, 1, 0x10000000, 1};
  const Double2 size = reinterpret_cast<Double2>(bits & Int32x4{-1, INT32_MAX, -1, INT32_MAX});
  return reinterpret_cast<Int64x2>(half_way) | (size < 0x1p-126);
}

// product + addend, rounded to odd (Boldo and Melquiond 2008): what a float cannot hold is then on
// the right side of every tie.
inline Double2 sum_to_odd(Double2 product, Double2 addend) {
  const Double2 sum = product + addend;
  const Double2 back = sum - product;
  const Double2 error = (product - (sum - back)) + (addend - back);
  const Int64x2 above = error > 0.0, below = error < 0.0;  // neither for NaN
  const Int64x2 inexact = above | below;
  const Int64x2 grown = inexact & (below ^ (sum < 0.0));  // rounded away from zero
  return reinterpret_cast<Double2>((reinterpret_cast<Int64x2>(sum) + grown) | (inexact & 1));
}

// Not inlined: it is seldom needed, and all kernels are full of multiply-adds.
[[gnu::noinline]] Float4 round_once(Double4 product, Double4 addend) {
  return narrow({sum_to_odd(product.lo, addend.lo), sum_to_odd(product.hi, addend.hi)});
}

// a * b + c, rounded once. The product is exact in double precision.
inline Float4 exact_fma(Float4 a, Float4 b, Float4 c) {
  const Double4 x = widen(a), y = widen(b), addend = widen(c);
  const Double4 product{x.lo * y.lo, x.hi * y.hi};
  const Double4 sum{product.lo + addend.lo, product.hi + addend.hi};
  const Int64x2 delicate = is_delicate(sum.lo) | is_delicate(sum.hi);
  if (__builtin_expect((delicate[0] | delicate[1]) == 0, 1)) return narrow(sum);
  return round_once(product, addend);
}

}  // namespace
}  // namespace maglio

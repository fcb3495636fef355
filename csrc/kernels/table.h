// Includes every kernel over the vectors of the instruction set whose header came before, and
// gathers them in a table. Everything is internal to the including file: code compiled for one
// instruction set must never be the linker's choice for another.
#pragma once

namespace maglio {
namespace {
// A compile-time number for generic lambdas. (std::integral_constant would do the same, but no
// standard header's function may be instantiated here.)
template <int kValue>
struct Count {
  static constexpr int value = kValue;
};

// Calls work(Count<n>{}), for n from 1 to 4.
template <typename Work>
[[gnu::always_inline]] inline void with_count(int n, const Work& work) {
  switch (n) {
    case 4:
      return work(Count<4>{});
    case 3:
      return work(Count<3>{});
    case 2:
      return work(Count<2>{});
    default:
      return work(Count<1>{});
  }
}

}  // namespace
}  // namespace maglio

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/recurrent.h"

namespace maglio {
namespace {

constexpr Kernels make_kernels() {
  return {kIsaName, rms_norm,         add_rows,  gate,     softmax,  sigmoid,
          soft_cap, quantize,         matmul,    rope,     keep_key, keep_value,
          attend,   scale_by_sigmoid, unit_norm, convolve, delta};
}

}  // namespace
}  // namespace maglio

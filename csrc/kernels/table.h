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
}  // namespace
}  // namespace maglio

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace maglio {
namespace {

constexpr Kernels make_kernels() {
  return {kIsaName, rms_norm, add_rows, gate, softmax, sigmoid,
          soft_cap, quantize, matmul,   rope, to_half, attend};
}

}  // namespace
}  // namespace maglio

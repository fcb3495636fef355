#include "simd/neon_dot.h"

#include "kernels/table.h"

namespace maglio {
extern const Kernels kNeonDotKernels;
const Kernels kNeonDotKernels = make_kernels();
}  // namespace maglio

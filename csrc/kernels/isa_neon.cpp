#include "simd/neon_no_dot.h"

#include "kernels/table.h"

namespace maglio {
extern const Kernels kNeonKernels;
const Kernels kNeonKernels = make_kernels();
}  // namespace maglio

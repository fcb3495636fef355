#include "simd/avx2_dot.h"

#include "kernels/table.h"

namespace maglio {
extern const Kernels kAvx2Kernels;
const Kernels kAvx2Kernels = make_kernels();
}  // namespace maglio

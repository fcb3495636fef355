#include "simd/avx512.h"

#include "kernels/table.h"

namespace maglio {
extern const Kernels kAvx512Kernels;
const Kernels kAvx512Kernels = make_kernels();
}  // namespace maglio

#include "simd/avx_vnni_dot.h"

#include "kernels/table.h"

namespace maglio {
extern const Kernels kAvxVnniKernels;
const Kernels kAvxVnniKernels = make_kernels();
}  // namespace maglio

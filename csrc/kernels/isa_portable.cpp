#include "simd/portable.h"

#include "kernels/table.h"

namespace maglio {
extern const Kernels kPortableKernels;
const Kernels kPortableKernels = make_kernels();
}  // namespace maglio

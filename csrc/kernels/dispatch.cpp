#include <cstring>

#include "kernels/kernels.h"
#include "kernels/processor.h"

namespace maglio {

extern const Kernels kAvx512Kernels, kAvxVnniKernels, kAvx2Kernels;
extern const Kernels kNeonDotKernels, kNeonKernels;
extern const Kernels kPortableKernels;

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> found;
#ifdef MAGLIO_X86
  if (has_avx512_vnni()) found.push_back(&kAvx512Kernels);
#ifdef MAGLIO_AVX_VNNI
  if (has_avx_vnni()) found.push_back(&kAvxVnniKernels);
#endif
  if (has_avx2()) found.push_back(&kAvx2Kernels);
#endif
#ifdef MAGLIO_ARM
  if (has_arm_dot()) found.push_back(&kNeonDotKernels);
  found.push_back(&kNeonKernels);
#endif
  found.push_back(&kPortableKernels);
  return found;
}

const Kernels* find_kernels(const char* isa) {
  for (const Kernels* kernels : available_kernels()) {
    if (*isa == '\0' || std::strcmp(isa, kernels->isa) == 0) return kernels;
  }
  return nullptr;
}

}  // namespace maglio

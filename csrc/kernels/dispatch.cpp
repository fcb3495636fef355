#include <cstring>

#include "kernels/kernels.h"

namespace maglio {

extern const Kernels kPortableKernels;
#ifdef MAGLIO_X86
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx2Kernels;
#endif

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> found;
#ifdef MAGLIO_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    found.push_back(&kAvx512Kernels);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    // Every processor with AVX2 has F16C.
    found.push_back(&kAvx2Kernels);
  }
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

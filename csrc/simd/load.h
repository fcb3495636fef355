// Memory read as a number of another type.
#pragma once

#include <cstdint>

namespace maglio {
namespace {

inline int32_t load_int32(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

}  // namespace
}  // namespace maglio

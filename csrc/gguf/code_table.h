// What the 4-bit codes of some formats stand for.
#pragma once

#include <cstdint>

#include "gguf/tensor_type.h"

namespace maglio {

// The values of 16 codes, each plus `zero`.
struct CodeTable {
  uint8_t entries[16];
  int zero;

  float value(int code) const { return static_cast<float>(entries[code] - zero); }
};

// The type's table, or one of codes that stand for themselves. That of a type with a grid has its
// magnitudes first, and 8 further on the same with a minus.
const CodeTable& code_table(TensorType type);

}  // namespace maglio

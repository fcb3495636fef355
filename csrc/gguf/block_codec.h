// The quantized block formats of model files: how 32 values are coded in the file's bytes.
// Formats: ggml's block_q4_0 ... block_q6_K, little-endian.
#pragma once

#include <cstdint>

#include "gguf/tensor_type.h"

namespace maglio {

// 32 consecutive values: scales[i / 16] * (codes[i] - zero) - min, zero as in LayoutInfo.
struct CodedBlock {
  uint8_t codes[32];
  float scales[2];
  float min;
};

// Decodes the `index`-th group of 32 values of a row that starts at `row`.
void decode_block(TensorType type, const uint8_t* row, int index, CodedBlock& out);

}  // namespace maglio

// The formats whose codes choose several values at once from a grid (ggml's block_iq2_xxs ...
// block_iq3_s), with a 4-bit code for each value instead.
//
// The values of an entry are one of up to 8 magnitudes and a sign, so 4 bits say the same. That
// takes 148 bytes where the file has 66 to 110.
#pragma once

#include <cstdint>

#include "gguf/tensor_type.h"

namespace maglio {

// 256 values: d * scales[i / 16] * (what the type's code table says of the code of value i).
struct GridBlock {
  float d;
  int8_t scales[16];
  uint8_t codes[128];  // 16 bytes per 32 values: low nibbles first, then high ones
};

// `type` has a grid.
GridBlock expand_block(TensorType type, const uint8_t* block);

// The 256 values of one.
void decode_block(TensorType type, const GridBlock& block, float* out);

}  // namespace maglio

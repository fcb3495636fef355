// The quantized block formats of model files: which values a block's bytes stand for, one block at
// a time, slow and obvious. Formats: ggml's block_q4_0 ... block_mxfp4, little-endian.
#pragma once

#include <cstdint>

#include "gguf/tensor_type.h"

namespace maglio {

// Whether a code of the format chooses several values at once, from a grid.
bool has_grid(TensorType type);

// Writes the values of one block, as many as its geometry says. Not for types with a grid.
void decode_block(TensorType type, const uint8_t* block, float* out);

}  // namespace maglio

// A weight matrix as the kernels read it.
//
// Output rows are interleaved by 16, so that a vector lane is an output row: a tile holds 16 rows.
// Of a quantized matrix it is a sequence of units. A unit has the blocks of its 16 rows that weigh
// the same inputs, in the bytes of the file's format: a block is a row of items of 1, 2 or 4 bytes,
// and the unit has the first item of all 16 rows, then the second of all, and so on. So what begins
// at byte n of a block begins at byte 16 n of its unit. (engine/interleave.h has the items.)
//
// Tiles of floats hold 16 values per input value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maglio {

constexpr int kTileRows = 16;
constexpr int kBlockValues = 32;  // of activations that share a scale

// Quantized layouts are named after the format in the file. kGrid stands for the formats whose
// codes choose several values at once: it has a 4-bit code for each (gguf/grid_block.h).
enum class Layout : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kGrid,
  kFloat16,
  kBFloat16,
  kFloat32,
};

constexpr bool is_quantized(Layout layout) { return layout < Layout::kFloat16; }

// What a kernel needs to know of a matrix.
struct MatrixView {
  Layout layout;
  int rows;
  int cols;
  const uint8_t* tiles;
  size_t tile_bytes;
  // What codes of 4 bits stand for, where they are no numbers themselves: 16 values, plus 128 in
  // kIQ4_NL and kIQ4_XS and plus 64 in kMXFP4 and kGrid.
  const uint8_t* table;
};

}  // namespace maglio

// A weight matrix as the kernels read it.
//
// Output rows are interleaved by 16, so that a vector lane is an output row: a tile holds 16 rows,
// and a tile is a sequence of blocks of 32 input values. Quantized blocks hold
//
//   codes   8 bits: group g of 4 values, lane i, 4 bytes at 64 g + 4 i
//           4 bits: groups 2 p and 2 p + 1 share the bytes at 64 p + 4 i, the first one low
//           5 bits: as 4 bits, then 8 bytes per group with bit 4 i + t of value t, lane i
//   scales  16 halves per scale group of 32 or 16 values
//   mins    16 halves, in formats that have a minimum
//
// and stand for scale * (code - zero) - min. Float tiles hold 16 values per input value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maglio {

constexpr int kTileRows = 16;
constexpr int kBlockValues = 32;

enum class Layout : uint8_t {
  kInt4,      // scale
  kInt4Min,   // scale, min
  kInt5,      // scale
  kInt5Min,   // scale, min
  kInt8,      // scale
  kInt8Half,  // a scale per 16 values
  kFloat16,
  kBFloat16,
  kFloat32,
};

inline bool is_quantized(Layout layout) { return layout < Layout::kFloat16; }

// What a kernel needs to know of a matrix.
struct MatrixView {
  Layout layout;
  int rows;
  int cols;
  const uint8_t* tiles;
  size_t tile_bytes;
};

}  // namespace maglio

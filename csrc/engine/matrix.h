// A weight matrix in the engine's own layout, made once from a tensor of a model file.
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
// Codes are the file's; a scale (or min) is the file's value rounded to half precision.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/aligned.h"
#include "gguf/tensor_type.h"

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

struct LayoutInfo {
  Layout layout;
  int zero_shift;        // code - 2^zero_shift; -1 for none
  uint32_t block_bytes;  // of a tile: 16 rows x 32 values
};

LayoutInfo layout_of(TensorType type);
inline bool is_quantized(Layout layout) { return layout < Layout::kFloat16; }

// Bytes of a matrix once it is repacked.
size_t packed_bytes(TensorType type, int rows, int cols);

// What a kernel needs to know of a matrix.
struct MatrixView {
  Layout layout;
  int rows;
  int cols;
  const uint8_t* tiles;
  size_t tile_bytes;
};

class Matrix {
 public:
  Matrix() = default;

  // Room for rows x cols values; `cols` is a multiple of 32 and of the type's block.
  Matrix(TensorType type, int rows, int cols);

  // Fills tiles [first_tile, last_tile) from `source`, the file's bytes row by row. Row r of the
  // matrix is row order[r] of the source, or row r when `order` is null. Several threads may fill
  // different tiles.
  void pack_tiles(const uint8_t* source, const int32_t* order, int first_tile, int last_tile);

  // Writes row `row` as floats: an embedding lookup.
  void unpack_row(int row, float* out) const;

  bool empty() const { return rows_ == 0; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  int tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
  int blocks() const { return cols_ / kBlockValues; }
  MatrixView view() const { return {info_.layout, rows_, cols_, buffer_.data(), tile_bytes()}; }
  size_t tile_bytes() const { return static_cast<size_t>(blocks()) * info_.block_bytes; }
  size_t bytes() const { return buffer_.size(); }

 private:
  TensorType type_ = TensorType::kF32;
  LayoutInfo info_{};
  int rows_ = 0;
  int cols_ = 0;
  AlignedBuffer buffer_;
};

}  // namespace maglio

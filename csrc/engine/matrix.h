// A weight matrix in the engine's own layout (kernels/matrix_view.h), made once from a tensor of a
// model file. Codes are the file's; a scale (or min) is the file's value rounded to half precision.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/aligned.h"
#include "gguf/tensor_type.h"
#include "kernels/matrix_view.h"

namespace maglio {

struct LayoutInfo {
  Layout layout;
  int zero_shift;        // code - 2^zero_shift; -1 for none
  uint32_t block_bytes;  // of a tile: 16 rows x 32 values
};

LayoutInfo layout_of(TensorType type);

class Matrix {
 public:
  Matrix() = default;

  // Room for rows x cols values; `cols` is a multiple of the type's block.
  Matrix(TensorType type, int rows, int cols);

  // Fills tiles [first_tile, last_tile) from `source`, the file's bytes row by row. Row r of the
  // matrix is row order[r] of the source, zeros where that is negative, or row r when `order` is
  // null. Several threads may fill different tiles.
  void pack_tiles(const uint8_t* source, const int32_t* order, int first_tile, int last_tile);

  // Writes row `row` as floats: an embedding lookup.
  void unpack_row(int row, float* out) const;

  bool empty() const { return rows_ == 0; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  int tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
  int blocks() const { return cols_ / kBlockValues; }
  MatrixView view() const { return {info_.layout, rows_, cols_, buffer_.data(), tile_bytes()}; }
  // Rows [first_row, first_row + rows) alone; the first of them begins a tile.
  MatrixView view(int first_row, int rows) const {
    MatrixView part = view();
    part.rows = rows;
    part.tiles += tile_bytes() * static_cast<size_t>(first_row / kTileRows);
    return part;
  }
  size_t tile_bytes() const;
  size_t bytes() const { return buffer_.size(); }

 private:
  TensorType type_ = TensorType::kF32;
  LayoutInfo info_{};
  int rows_ = 0;
  int cols_ = 0;
  AlignedBuffer buffer_;
};

}  // namespace maglio

// A weight matrix in the engine's own layout (kernels/matrix_view.h), made once from a tensor of a
// model file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/aligned.h"
#include "engine/interleave.h"
#include "gguf/tensor_type.h"
#include "kernels/matrix_view.h"

namespace maglio {

class Matrix {
 public:
  Matrix() = default;

  // Room for rows x cols values; `cols` is a multiple of the type's block.
  Matrix(TensorType type, int rows, int cols);

  // Tiles of such a matrix that `owner` keeps in memory.
  Matrix(TensorType type, int rows, int cols, const uint8_t* tiles,
         std::shared_ptr<const void> owner);

  // Fills tiles [first_tile, last_tile) from `source`, the file's bytes row by row, from its row
  // `source_row` on. Row r of the matrix is row order[r] of the file, zeros where that is negative,
  // or row r when `order` is null. Several threads may fill different tiles.
  void pack_tiles(const uint8_t* source, const int32_t* order, int first_tile, int last_tile,
                  int source_row = 0);

  // Writes row `row` as floats, the values of the file: an embedding lookup.
  void unpack_row(int row, float* out) const;

  bool empty() const { return rows_ == 0; }
  // Whether a product with it reads activations in 8 bits.
  bool reads_codes() const { return !empty() && is_quantized(view().layout); }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  int tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
  MatrixView view() const;
  // Rows [first_row, first_row + rows) alone; the first of them begins a tile.
  MatrixView view(int first_row, int rows) const {
    MatrixView part = view();
    part.rows = rows;
    part.tiles += tile_bytes() * static_cast<size_t>(first_row / kTileRows);
    return part;
  }
  size_t tile_bytes() const { return units() * unit_bytes_; }
  size_t bytes() const { return static_cast<size_t>(tiles()) * tile_bytes(); }
  TensorType type() const { return type_; }
  const uint8_t* data() const { return buffer_.data(); }

 private:
  size_t units() const { return static_cast<size_t>(cols_ / block_.values); }

  TensorType type_ = TensorType::kF32;
  int rows_ = 0;
  int cols_ = 0;
  BlockPieces block_{1, {}};
  size_t unit_bytes_ = 0;  // of 16 blocks
  AlignedBuffer buffer_;
};

}  // namespace maglio

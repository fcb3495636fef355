// A matrix of which only single rows are read, by token.
//
// It keeps the bytes of the file: repacking serves products, and would make a table of billions of
// values, of which a forward reads a few thousand, larger.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/aligned.h"
#include "gguf/tensor_type.h"

namespace maglio {

class EmbeddingTable {
 public:
  EmbeddingTable() = default;

  // Of rows x cols values, and no memory for them yet; `cols` is a multiple of the type's block.
  EmbeddingTable(TensorType type, int rows, int cols) : type_(type), rows_(rows), cols_(cols) {}

  // Makes room for the bytes of the file, row by row.
  void allocate() { buffer_ = AlignedBuffer(bytes(), Pages::kHuge); }
  uint8_t* data() { return buffer_.data(); }

  // Writes row `row` as floats.
  void read(int row, float* out) const;

  bool empty() const { return rows_ == 0; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  size_t bytes() const { return static_cast<size_t>(rows_) * row_bytes(); }

 private:
  size_t row_bytes() const {
    const BlockGeometry block = block_geometry(static_cast<uint32_t>(type_));
    return static_cast<size_t>(cols_) / block.values * block.bytes;
  }

  TensorType type_ = TensorType::kF32;
  int rows_ = 0;
  int cols_ = 0;
  AlignedBuffer buffer_;
};

}  // namespace maglio

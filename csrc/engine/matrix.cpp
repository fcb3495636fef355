#include "engine/matrix.h"

#include <algorithm>
#include <cstring>

#include "gguf/block_codec.h"
#include "gguf/code_table.h"
#include "gguf/grid_block.h"

namespace maglio {
namespace {

Layout layout_of(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return Layout::kQ4_0;
    case TensorType::kQ4_1:
      return Layout::kQ4_1;
    case TensorType::kQ5_0:
      return Layout::kQ5_0;
    case TensorType::kQ5_1:
      return Layout::kQ5_1;
    case TensorType::kQ8_0:
      return Layout::kQ8_0;
    case TensorType::kQ2_K:
      return Layout::kQ2_K;
    case TensorType::kQ3_K:
      return Layout::kQ3_K;
    case TensorType::kQ4_K:
      return Layout::kQ4_K;
    case TensorType::kQ5_K:
      return Layout::kQ5_K;
    case TensorType::kQ6_K:
      return Layout::kQ6_K;
    case TensorType::kIQ4_NL:
      return Layout::kIQ4_NL;
    case TensorType::kIQ4_XS:
      return Layout::kIQ4_XS;
    case TensorType::kMXFP4:
      return Layout::kMXFP4;
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
    case TensorType::kIQ3_XXS:
    case TensorType::kIQ3_S:
      return Layout::kGrid;
    case TensorType::kF16:
      return Layout::kFloat16;
    case TensorType::kBF16:
      return Layout::kBFloat16;
    case TensorType::kF32:
      return Layout::kFloat32;
  }
  return Layout::kFloat32;
}

// The file's bytes of `values` values.
size_t file_bytes(TensorType type, int values) {
  const BlockGeometry geometry = block_geometry(static_cast<uint32_t>(type));
  return static_cast<size_t>(values) / geometry.values * geometry.bytes;
}

// The values of one block of a tile, in the layout's bytes.
void decode(TensorType type, const uint8_t* block, int values, float* out) {
  if (has_grid(type)) {
    GridBlock expanded;
    std::memcpy(&expanded, block, sizeof(expanded));
    return decode_block(type, expanded, out);
  }
  const BlockGeometry geometry = block_geometry(static_cast<uint32_t>(type));
  for (int i = 0; i < values; i += static_cast<int>(geometry.values), block += geometry.bytes) {
    decode_block(type, block, out + i);
  }
}

}  // namespace

Matrix::Matrix(TensorType type, int rows, int cols)
    : type_(type),
      rows_(rows),
      cols_(cols),
      block_(pieces_of(layout_of(type), cols)),
      unit_bytes_(kTileRows * block_.bytes()),
      buffer_(static_cast<size_t>(tiles()) * tile_bytes(), Pages::kHuge) {}

MatrixView Matrix::view() const {
  return {layout_of(type_), rows_, cols_, buffer_.data(), tile_bytes(), code_table(type_).entries};
}

void Matrix::pack_tiles(const uint8_t* source, const int32_t* order, int first_tile,
                        int last_tile) {
  const size_t row_bytes = file_bytes(type_, cols_), block_bytes = file_bytes(type_, block_.values);
  for (int tile = first_tile; tile < last_tile; ++tile) {
    uint8_t* unit = buffer_.data() + tile_bytes() * static_cast<size_t>(tile);
    const int first_row = tile * kTileRows, lanes = std::min(kTileRows, rows_ - first_row);
    for (size_t u = 0; u < units(); ++u, unit += unit_bytes_) {
      for (int lane = 0; lane < lanes; ++lane) {
        const int row = order ? order[first_row + lane] : first_row + lane;
        if (row < 0) continue;  // memory is zeroed, and so are weights of zero bytes
        const uint8_t* block = source + row_bytes * static_cast<size_t>(row) + block_bytes * u;
        if (has_grid(type_)) {
          const GridBlock expanded = expand_block(type_, block);
          interleave(block_, reinterpret_cast<const uint8_t*>(&expanded), lane, unit);
        } else {
          interleave(block_, block, lane, unit);
        }
      }
    }
  }
}

void Matrix::unpack_row(int row, float* out) const {
  const uint8_t* unit = buffer_.data() + tile_bytes() * static_cast<size_t>(row / kTileRows);
  std::vector<uint8_t> block(block_.bytes());
  for (size_t u = 0; u < units(); ++u, unit += unit_bytes_, out += block_.values) {
    separate(block_, unit, row % kTileRows, block.data());
    decode(type_, block.data(), block_.values, out);
  }
}

}  // namespace maglio

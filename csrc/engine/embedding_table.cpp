#include "engine/embedding_table.h"

#include "gguf/block_codec.h"
#include "gguf/grid_block.h"

namespace maglio {

void EmbeddingTable::read(int row, float* out) const {
  const BlockGeometry geometry = block_geometry(static_cast<uint32_t>(type_));
  const uint8_t* block = buffer_.data() + row_bytes() * static_cast<size_t>(row);
  for (int i = 0; i < cols_; i += static_cast<int>(geometry.values), block += geometry.bytes) {
    if (has_grid(type_)) {
      decode_block(type_, expand_block(type_, block), out + i);
    } else {
      decode_block(type_, block, out + i);
    }
  }
}

}  // namespace maglio

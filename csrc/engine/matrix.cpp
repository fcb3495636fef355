#include "engine/matrix.h"

#include <algorithm>
#include <cstring>

#include "gguf/block_codec.h"
#include "gguf/half.h"

namespace maglio {
namespace {

constexpr int kGroups = 8;  // of 4 values in a block
constexpr int kScaleBytes = 2 * kTileRows;

int code_bytes(Layout layout) {
  switch (layout) {
    case Layout::kInt4:
    case Layout::kInt4Min:
      return 256;
    case Layout::kInt5:
    case Layout::kInt5Min:
      return 256 + 64;
    case Layout::kInt8:
    case Layout::kInt8Half:
      return 512;
    default:
      return 0;
  }
}

bool has_min(Layout layout) { return layout == Layout::kInt4Min || layout == Layout::kInt5Min; }

size_t value_bytes(Layout layout) { return layout == Layout::kFloat32 ? 4 : 2; }

size_t row_bytes(TensorType type, int cols) {
  const BlockGeometry geometry = block_geometry(static_cast<uint32_t>(type));
  return static_cast<size_t>(cols) / geometry.values * geometry.bytes;
}

void put_nibbles(const uint8_t* codes, int lane, uint8_t* block) {
  for (int pair = 0; pair < kGroups / 2; ++pair) {
    const uint8_t* low = codes + 8 * pair;
    uint8_t* out = block + 64 * pair + 4 * lane;
    for (int t = 0; t < 4; ++t) {
      out[t] = static_cast<uint8_t>((low[t] & 15) | (low[t + 4] & 15) << 4);
    }
  }
}

void put_fifth_bits(const uint8_t* codes, int lane, uint8_t* bits) {
  for (int group = 0; group < kGroups; ++group) {
    for (int t = 0; t < 4; ++t) {
      const int bit = 4 * lane + t;
      const uint8_t set = static_cast<uint8_t>((codes[4 * group + t] >> 4) << (bit % 8));
      bits[8 * group + bit / 8] = static_cast<uint8_t>(bits[8 * group + bit / 8] | set);
    }
  }
}

void put_bytes(const uint8_t* codes, int lane, uint8_t* block) {
  for (int group = 0; group < kGroups; ++group) {
    std::memcpy(block + 64 * group + 4 * lane, codes + 4 * group, 4);
  }
}

void put_half(float x, uint8_t* p) {
  const uint16_t h = float_to_half(x);
  std::memcpy(p, &h, sizeof(h));
}

float get_half(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, sizeof(h));
  return half_to_float(h);
}

void put_block(Layout layout, const CodedBlock& coded, int lane, uint8_t* block) {
  if (code_bytes(layout) >= 512) {
    put_bytes(coded.codes, lane, block);
  } else {
    put_nibbles(coded.codes, lane, block);
    if (code_bytes(layout) > 256) put_fifth_bits(coded.codes, lane, block + 256);
  }
  uint8_t* scales = block + code_bytes(layout) + 2 * lane;
  put_half(coded.scales[0], scales);
  if (layout == Layout::kInt8Half) put_half(coded.scales[1], scales + kScaleBytes);
  if (has_min(layout)) put_half(coded.min, scales + kScaleBytes);
}

int get_code(Layout layout, const uint8_t* block, int lane, int i) {
  const int group = i / 4, t = i % 4;
  if (code_bytes(layout) >= 512) return block[64 * group + 4 * lane + t];
  const uint8_t byte = block[64 * (group / 2) + 4 * lane + t];
  int code = group % 2 == 0 ? byte & 15 : byte >> 4;
  if (code_bytes(layout) > 256) {
    const int bit = 4 * lane + t;
    code |= ((block[256 + 8 * group + bit / 8] >> (bit % 8)) & 1) << 4;
  }
  return code;
}

void get_block(const LayoutInfo& info, const uint8_t* block, int lane, float* out) {
  const uint8_t* scales = block + code_bytes(info.layout) + 2 * lane;
  const int zero = info.zero_shift < 0 ? 0 : 1 << info.zero_shift;
  const float min = has_min(info.layout) ? get_half(scales + kScaleBytes) : 0.0f;
  for (int i = 0; i < kBlockValues; ++i) {
    const bool second = info.layout == Layout::kInt8Half && i >= 16;
    const float scale = get_half(scales + (second ? kScaleBytes : 0));
    out[i] = scale * static_cast<float>(get_code(info.layout, block, lane, i) - zero) - min;
  }
}

}  // namespace

LayoutInfo layout_of(TensorType type) {
  const auto quantized = [](Layout layout, int zero_shift) {
    const bool two = layout == Layout::kInt8Half || has_min(layout);
    return LayoutInfo{layout, zero_shift,
                      static_cast<uint32_t>(code_bytes(layout) + kScaleBytes * (two ? 2 : 1))};
  };
  const auto floats = [](Layout layout) {
    return LayoutInfo{layout, -1,
                      static_cast<uint32_t>(kTileRows * kBlockValues * value_bytes(layout))};
  };
  switch (type) {
    case TensorType::kQ4_0:
      return quantized(Layout::kInt4, 3);
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
      return quantized(Layout::kInt4Min, -1);
    case TensorType::kQ5_0:
      return quantized(Layout::kInt5, 4);
    case TensorType::kQ5_1:
    case TensorType::kQ5_K:
      return quantized(Layout::kInt5Min, -1);
    case TensorType::kQ8_0:
      return quantized(Layout::kInt8, 7);
    case TensorType::kQ6_K:
      return quantized(Layout::kInt8Half, 5);
    case TensorType::kF16:
      return floats(Layout::kFloat16);
    case TensorType::kBF16:
      return floats(Layout::kBFloat16);
    case TensorType::kF32:
      return floats(Layout::kFloat32);
  }
  return floats(Layout::kFloat32);
}

size_t Matrix::tile_bytes() const {
  if (is_quantized(info_.layout)) return static_cast<size_t>(blocks()) * info_.block_bytes;
  return static_cast<size_t>(cols_) * kTileRows * value_bytes(info_.layout);
}

Matrix::Matrix(TensorType type, int rows, int cols)
    : type_(type),
      info_(layout_of(type)),
      rows_(rows),
      cols_(cols),
      buffer_(static_cast<size_t>(tiles()) * tile_bytes(), Pages::kHuge) {}

void Matrix::pack_tiles(const uint8_t* source, const int32_t* order, int first_tile,
                        int last_tile) {
  const size_t stride = row_bytes(type_, cols_);
  const size_t width = value_bytes(info_.layout);
  CodedBlock coded;
  for (int row = first_tile * kTileRows; row < std::min(last_tile * kTileRows, rows_); ++row) {
    if (order && order[row] < 0) continue;  // memory is zeroed, and so are weights of zero bytes
    const uint8_t* from = source + stride * static_cast<size_t>(order ? order[row] : row);
    uint8_t* to = buffer_.data() + tile_bytes() * static_cast<size_t>(row / kTileRows);
    const int lane = row % kTileRows;
    if (!is_quantized(info_.layout)) {
      for (int i = 0; i < cols_; ++i) {
        std::memcpy(to + width * (kTileRows * static_cast<size_t>(i) + lane), from + width * i,
                    width);
      }
      continue;
    }
    for (int b = 0; b < blocks(); ++b) {
      decode_block(type_, from, b, coded);
      put_block(info_.layout, coded, lane, to + static_cast<size_t>(b) * info_.block_bytes);
    }
  }
}

void Matrix::unpack_row(int row, float* out) const {
  const uint8_t* tile_data = buffer_.data() + tile_bytes() * static_cast<size_t>(row / kTileRows);
  const int lane = row % kTileRows;
  if (is_quantized(info_.layout)) {
    for (int b = 0; b < blocks(); ++b) {
      get_block(info_, tile_data + static_cast<size_t>(b) * info_.block_bytes, lane,
                out + kBlockValues * b);
    }
    return;
  }
  for (int i = 0; i < cols_; ++i) {
    const size_t at = kTileRows * static_cast<size_t>(i) + lane;
    if (info_.layout == Layout::kFloat32) {
      std::memcpy(out + i, tile_data + 4 * at, sizeof(float));
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, tile_data + 2 * at, sizeof(bits));
    out[i] = info_.layout == Layout::kFloat16 ? half_to_float(bits) : bfloat_to_float(bits);
  }
}

}  // namespace maglio

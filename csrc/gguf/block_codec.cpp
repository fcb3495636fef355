#include "gguf/block_codec.h"

#include <cstring>

#include "gguf/half.h"

namespace maglio {
namespace {

float read_half(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, sizeof(h));
  return half_to_float(h);
}

uint32_t read_u32(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

// 16 bytes of which the low nibbles are values 0-15 and the high ones values 16-31.
void split_nibbles(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 16] = packed[i] >> 4;
  }
}

void add_high_bits(uint32_t bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | ((bits >> i) & 1) << 4);
}

// The 6-bit scale and min of sub-block j of a Q4_K or Q5_K block, packed in 12 bytes.
void unpack_scale_min(const uint8_t* q, int j, int& scale, int& min) {
  if (j < 4) {
    scale = q[j] & 63;
    min = q[j + 4] & 63;
  } else {
    scale = (q[j + 4] & 15) | (q[j - 4] >> 6) << 4;
    min = (q[j + 4] >> 4) | (q[j] >> 6) << 4;
  }
}

void set_scale(CodedBlock& out, float scale) { out.scales[0] = out.scales[1] = scale; }

void decode_q4_k(const uint8_t* block, int j, CodedBlock& out) {
  int scale, min;
  unpack_scale_min(block + 4, j, scale, min);
  set_scale(out, read_half(block) * static_cast<float>(scale));
  out.min = read_half(block + 2) * static_cast<float>(min);
  const uint8_t* packed = block + 16 + (j / 2) * 32;
  const int shift = (j & 1) * 4;
  for (int i = 0; i < 32; ++i) out.codes[i] = (packed[i] >> shift) & 15;
}

void decode_q5_k(const uint8_t* block, int j, CodedBlock& out) {
  int scale, min;
  unpack_scale_min(block + 4, j, scale, min);
  set_scale(out, read_half(block) * static_cast<float>(scale));
  out.min = read_half(block + 2) * static_cast<float>(min);
  const uint8_t* high = block + 16;
  const uint8_t* packed = block + 48 + (j / 2) * 32;
  const int shift = (j & 1) * 4;
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = static_cast<uint8_t>(((packed[i] >> shift) & 15) | ((high[i] >> j) & 1) << 4);
  }
}

void decode_q6_k(const uint8_t* block, int j, CodedBlock& out) {
  const int half = j / 4, quarter = j % 4;
  const uint8_t* low = block + half * 64 + (quarter & 1) * 32;
  const uint8_t* high = block + 128 + half * 32;
  int8_t scales[2];
  std::memcpy(scales, block + 192 + half * 8 + quarter * 2, sizeof(scales));
  const float d = read_half(block + 208);
  const int low_shift = (quarter / 2) * 4, high_shift = quarter * 2;
  for (int i = 0; i < 32; ++i) {
    out.codes[i] =
        static_cast<uint8_t>(((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4);
  }
  out.scales[0] = d * static_cast<float>(scales[0]);
  out.scales[1] = d * static_cast<float>(scales[1]);
}

}  // namespace

void decode_block(TensorType type, const uint8_t* row, int index, CodedBlock& out) {
  const BlockGeometry geometry = block_geometry(static_cast<uint32_t>(type));
  const int per_block = static_cast<int>(geometry.values) / 32;
  const uint8_t* block = row + static_cast<size_t>(index / per_block) * geometry.bytes;
  out.min = 0.0f;
  switch (type) {
    case TensorType::kQ4_0:
      set_scale(out, read_half(block));
      split_nibbles(block + 2, out.codes);
      return;
    case TensorType::kQ4_1:
      set_scale(out, read_half(block));
      out.min = -read_half(block + 2);
      split_nibbles(block + 4, out.codes);
      return;
    case TensorType::kQ5_0:
      set_scale(out, read_half(block));
      split_nibbles(block + 6, out.codes);
      add_high_bits(read_u32(block + 2), out.codes);
      return;
    case TensorType::kQ5_1:
      set_scale(out, read_half(block));
      out.min = -read_half(block + 2);
      split_nibbles(block + 8, out.codes);
      add_high_bits(read_u32(block + 4), out.codes);
      return;
    case TensorType::kQ8_0:
      set_scale(out, read_half(block));
      for (int i = 0; i < 32; ++i) out.codes[i] = block[2 + i] ^ 0x80;
      return;
    case TensorType::kQ4_K:
      return decode_q4_k(block, index % per_block, out);
    case TensorType::kQ5_K:
      return decode_q5_k(block, index % per_block, out);
    case TensorType::kQ6_K:
      return decode_q6_k(block, index % per_block, out);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      return;
  }
}

}  // namespace maglio

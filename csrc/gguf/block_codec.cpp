#include "gguf/block_codec.h"

#include <cstring>

#include "gguf/code_table.h"
#include "gguf/half.h"

namespace maglio {
namespace {

uint16_t read_u16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

float read_half(const uint8_t* p) { return half_to_float(read_u16(p)); }

// 16 bytes of which the low nibbles are codes 0-15 and the high ones codes 16-31.
int nibble(const uint8_t* packed, int i) { return i < 16 ? packed[i] & 15 : packed[i - 16] >> 4; }

int bit(const uint8_t* bits, int i) { return (bits[i / 8] >> (i % 8)) & 1; }

// Value i is scale * (code(i) - zero) - min.
template <typename Code>
void put(float* out, int n, float scale, int zero, float min, Code code) {
  for (int i = 0; i < n; ++i) out[i] = scale * static_cast<float>(code(i) - zero) - min;
}

// The 6-bit scale and minimum of the j-th of 8 groups of a Q4_K or Q5_K block, packed in 12 bytes.
void read_scale_min(const uint8_t* q, int j, int& scale, int& min) {
  if (j < 4) {
    scale = q[j] & 63;
    min = q[j + 4] & 63;
  } else {
    scale = (q[j + 4] & 15) | (q[j - 4] >> 6) << 4;
    min = (q[j + 4] >> 4) | (q[j] >> 6) << 4;
  }
}

void decode_q2_k(const uint8_t* block, float* out) {
  const float d = read_half(block + 80), d_min = read_half(block + 82);
  for (int i = 0; i < 256; i += 16) {  // each 16 values have a scale and a minimum
    const uint8_t both = block[i / 16];
    const uint8_t* codes = block + 16 + i / 128 * 32 + i % 32;
    put(out + i, 16, d * static_cast<float>(both & 15), 0, d_min * static_cast<float>(both >> 4),
        [&](int k) { return (codes[k] >> (i % 128 / 32 * 2)) & 3; });
  }
}

void decode_q3_k(const uint8_t* block, float* out) {
  const uint8_t* packed = block + 96;
  const float d = read_half(block + 108);
  for (int s = 0; s < 16; ++s) {
    const int i = 16 * s;
    const int scale =
        ((packed[s % 8] >> (s < 8 ? 0 : 4)) & 15) | ((packed[8 + s % 4] >> (s / 4 * 2)) & 3) << 4;
    const uint8_t* low = block + 32 + i / 128 * 32 + i % 32;
    const uint8_t* high = block + i % 32;
    put(out + i, 16, d * static_cast<float>(scale - 32), 4, 0.0f, [&](int k) {
      return ((low[k] >> (i % 128 / 32 * 2)) & 3) | ((high[k] >> (i / 32)) & 1) << 2;
    });
  }
}

// `high` has the fifth bits, or is null for codes of four.
void decode_q45_k(const uint8_t* block, const uint8_t* high, const uint8_t* codes, float* out) {
  const float d = read_half(block), d_min = read_half(block + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, min;
    read_scale_min(block + 4, j, scale, min);
    const uint8_t* packed = codes + j / 2 * 32;
    put(out + 32 * j, 32, d * static_cast<float>(scale), 0, d_min * static_cast<float>(min),
        [&](int k) {
          const int fifth = high == nullptr ? 0 : (high[k] >> j) & 1;
          return ((packed[k] >> (j % 2 * 4)) & 15) | fifth << 4;
        });
  }
}

void decode_q6_k(const uint8_t* block, float* out) {
  const float d = read_half(block + 208);
  for (int i = 0; i < 256; i += 16) {
    const int part = i / 128, quarter = i % 128 / 32;
    const uint8_t* low = block + part * 64 + quarter % 2 * 32 + i % 32;
    const uint8_t* high = block + 128 + part * 32 + i % 32;
    int8_t scale;
    std::memcpy(&scale, block + 192 + i / 16, sizeof(scale));
    put(out + i, 16, d * static_cast<float>(scale), 32, 0.0f, [&](int k) {
      return ((low[k] >> (quarter / 2 * 4)) & 15) | ((high[k] >> (quarter * 2)) & 3) << 4;
    });
  }
}

// 32 codes of a table, times scale.
void look_up(TensorType type, const uint8_t* packed, float scale, float* out) {
  const CodeTable& table = code_table(type);
  for (int i = 0; i < 32; ++i) out[i] = scale * table.value(nibble(packed, i));
}

void decode_iq4_xs(const uint8_t* block, float* out) {
  const float d = read_half(block);
  const int high = read_u16(block + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = (block[4 + j / 2] >> (j % 2 * 4)) & 15;
    const int scale = low | ((high >> (2 * j)) & 3) << 4;
    look_up(TensorType::kIQ4_XS, block + 8 + 16 * j, d * static_cast<float>(scale - 32),
            out + 32 * j);
  }
}

// 2^(e - 128), of which the two smallest are not normal.
float power_of_two(int e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return bits_to_float(bits);
}

}  // namespace

bool has_grid(TensorType type) {
  switch (type) {
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
    case TensorType::kIQ3_XXS:
    case TensorType::kIQ3_S:
      return true;
    default:
      return false;
  }
}

void decode_block(TensorType type, const uint8_t* block, float* out) {
  const auto nibbles_at = [&](int at) {
    return [packed = block + at](int i) { return nibble(packed, i); };
  };
  const auto five_bits_at = [&](int high, int at) {
    return [bits = block + high, packed = block + at](int i) {
      return nibble(packed, i) | bit(bits, i) << 4;
    };
  };
  switch (type) {
    case TensorType::kF32:
      std::memcpy(out, block, sizeof(float));
      return;
    case TensorType::kF16:
      *out = read_half(block);
      return;
    case TensorType::kBF16:
      *out = bfloat_to_float(read_u16(block));
      return;
    case TensorType::kQ4_0:
      return put(out, 32, read_half(block), 8, 0.0f, nibbles_at(2));
    case TensorType::kQ4_1:
      return put(out, 32, read_half(block), 0, -read_half(block + 2), nibbles_at(4));
    case TensorType::kQ5_0:
      return put(out, 32, read_half(block), 16, 0.0f, five_bits_at(2, 6));
    case TensorType::kQ5_1:
      return put(out, 32, read_half(block), 0, -read_half(block + 2), five_bits_at(4, 8));
    case TensorType::kQ8_0:
      return put(out, 32, read_half(block), 128, 0.0f, [&](int i) { return block[2 + i] ^ 128; });
    case TensorType::kQ2_K:
      return decode_q2_k(block, out);
    case TensorType::kQ3_K:
      return decode_q3_k(block, out);
    case TensorType::kQ4_K:
      return decode_q45_k(block, nullptr, block + 16, out);
    case TensorType::kQ5_K:
      return decode_q45_k(block, block + 16, block + 48, out);
    case TensorType::kQ6_K:
      return decode_q6_k(block, out);
    case TensorType::kIQ4_NL:
      return look_up(type, block + 2, read_half(block), out);
    case TensorType::kIQ4_XS:
      return decode_iq4_xs(block, out);
    case TensorType::kMXFP4:
      return look_up(type, block + 1, power_of_two(block[0]), out);
    default:
      return;
  }
}

}  // namespace maglio

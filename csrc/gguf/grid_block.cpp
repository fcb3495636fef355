#include "gguf/grid_block.h"

#include <cstring>

#include "gguf/code_table.h"
#include "gguf/grids.h"
#include "gguf/half.h"

namespace maglio {
namespace {

uint16_t read_u16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

uint32_t read_u32(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

// The fields of kBits bits in the lowest 8 kBits of x, a byte each.
template <int kBits>
uint64_t to_bytes(uint64_t x) {
  constexpr uint64_t kField = (1u << kBits) - 1;
  constexpr uint64_t kTwo = kField | kField << kBits, kFour = kTwo | kTwo << (2 * kBits);
  x = (x | x << (32 - 4 * kBits)) & (kFour | kFour << 32);
  x = (x | x << (16 - 2 * kBits)) & (kTwo * 0x0001000100010001u);
  return (x | x << (8 - kBits)) & (kField * 0x0101010101010101u);
}

// Values i to i + 7 get the codes of 8 magnitudes, negative where `signs` has a bit.
void put_codes(GridBlock& out, int i, uint64_t magnitudes, uint32_t signs) {
  uint8_t* bytes = out.codes + i / 32 * 16 + i % 16;
  uint64_t eight;
  std::memcpy(&eight, bytes, sizeof(eight));
  eight |= (magnitudes | to_bytes<1>(signs & 255) << 3) << (i % 32 < 16 ? 0 : 4);
  std::memcpy(bytes, &eight, sizeof(eight));
}

// Those of one entry, or of two.
void put_eight(GridBlock& out, int i, uint16_t entry, uint32_t signs) {
  put_codes(out, i, to_bytes<2>(entry), signs);
}
void put_twice_four(GridBlock& out, int i, uint16_t first, uint16_t second, uint32_t signs) {
  put_codes(out, i, to_bytes<3>(first | static_cast<uint32_t>(second) << 12), signs);
}

// Of eight signs seven are coded; the number of minuses is even.
uint32_t eight_signs(uint32_t seven) {
  return seven | static_cast<uint32_t>(__builtin_parity(seven)) << 7;
}

int8_t odd(uint32_t scale) { return static_cast<int8_t>(2 * scale + 1); }

// Scales of 4 bits: half a block of 32 each.
void put_nibble_scales(const uint8_t* scales, GridBlock& out) {
  for (int s = 0; s < 16; ++s) out.scales[s] = odd((scales[s / 2] >> (s % 2 * 4)) & 15);
}

// Per 32 values: four codes of 8 bits, then four times seven signs and a scale in 32 bits.
void expand_iq2_xxs(const uint8_t* block, GridBlock& out) {
  for (int j = 0; j < 8; ++j) {
    const uint8_t* codes = block + 2 + 8 * j;
    const uint32_t rest = read_u32(codes + 4);
    out.scales[2 * j] = out.scales[2 * j + 1] = odd(rest >> 28);
    for (int k = 0; k < 4; ++k) {
      put_eight(out, 32 * j + 8 * k, kGrid2Xxs[codes[k]], eight_signs((rest >> (7 * k)) & 127));
    }
  }
}

// Per 8 values: a code of 9 bits and seven signs.
void expand_iq2_xs(const uint8_t* block, GridBlock& out) {
  for (int k = 0; k < 32; ++k) {
    const uint16_t both = read_u16(block + 2 + 2 * k);
    put_eight(out, 8 * k, kGrid2Xs[both & 511], eight_signs(both >> 9));
  }
  put_nibble_scales(block + 66, out);
}

// Per 8 values: a code of 8 bits, eight signs, and two more bits of the code.
void expand_iq2_s(const uint8_t* block, GridBlock& out) {
  for (int k = 0; k < 32; ++k) {
    const int high = (block[66 + k / 4] >> (k % 4 * 2)) & 3;
    put_eight(out, 8 * k, kGrid2S[block[2 + k] | high << 8], block[34 + k]);
  }
  put_nibble_scales(block + 74, out);
}

// Per 32 values: eight codes of 8 bits; and after all of them four times seven signs and a scale.
void expand_iq3_xxs(const uint8_t* block, GridBlock& out) {
  for (int j = 0; j < 8; ++j) {
    const uint32_t rest = read_u32(block + 66 + 4 * j);
    out.scales[2 * j] = out.scales[2 * j + 1] = odd(rest >> 28);
    const uint8_t* codes = block + 2 + 8 * j;
    for (int k = 0; k < 4; ++k) {
      put_twice_four(out, 32 * j + 8 * k, kGrid3Xxs[codes[2 * k]], kGrid3Xxs[codes[2 * k + 1]],
                     eight_signs((rest >> (7 * k)) & 127));
    }
  }
}

// Per 4 values: a code of 8 bits, a ninth bit, and four signs; per 32 values a scale.
void expand_iq3_s(const uint8_t* block, GridBlock& out) {
  const auto entry = [&](int k) {
    return kGrid3S[block[2 + k] | ((block[66 + k / 8] >> (k % 8)) & 1) << 8];
  };
  for (int k = 0; k < 32; ++k) {
    put_twice_four(out, 8 * k, entry(2 * k), entry(2 * k + 1), block[74 + k]);
  }
  for (int s = 0; s < 16; ++s) out.scales[s] = odd((block[106 + s / 4] >> (s / 2 % 2 * 4)) & 15);
}

}  // namespace

GridBlock expand_block(TensorType type, const uint8_t* block) {
  GridBlock out{};
  // Where the format's scales are halves and quarters, ours are odd numbers.
  const float d = half_to_float(read_u16(block));
  switch (type) {
    case TensorType::kIQ2_XXS:
      expand_iq2_xxs(block, out);
      out.d = d / 8;
      break;
    case TensorType::kIQ2_XS:
      expand_iq2_xs(block, out);
      out.d = d / 8;
      break;
    case TensorType::kIQ2_S:
      expand_iq2_s(block, out);
      out.d = d / 8;
      break;
    case TensorType::kIQ3_XXS:
      expand_iq3_xxs(block, out);
      out.d = d / 4;
      break;
    default:
      expand_iq3_s(block, out);
      out.d = d;
  }
  return out;
}

void decode_block(TensorType type, const GridBlock& block, float* out) {
  const CodeTable& table = code_table(type);
  for (int i = 0; i < 256; ++i) {
    const uint8_t byte = block.codes[i / 32 * 16 + i % 16];
    const float scale = block.d * static_cast<float>(block.scales[i / 16]);
    out[i] = scale * table.value(i % 32 < 16 ? byte & 15 : byte >> 4);
  }
}

}  // namespace maglio

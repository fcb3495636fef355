// The quantized layouts: how 32 inputs of a unit are unpacked. Included once per instruction set.
//
// A weight is scale * (code - zero) - min. Scales and minima are those of the file: where it has a
// half precision number times a small integer, the product is exact in single precision.
#pragma once

#include "kernels/matrix_view.h"

namespace maglio {
namespace {

constexpr int kGroups = 8;  // of 4 inputs in a block of 32

// 32 inputs of 16 rows: group g, lane i has codes 4 g to 4 g + 3 of row i.
struct Block {
  ByteVec codes[kGroups];
  Vec scales[2];  // of inputs 0-15 and 16-31, or the first one of all
  Vec mins[2];    // likewise
};

// Where item `byte` of the file's blocks begins.
inline const uint8_t* item(const uint8_t* unit, int byte) { return unit + kTileRows * byte; }
inline Vec half_at(const uint8_t* unit, int byte) {
  return load_half(reinterpret_cast<const uint16_t*>(item(unit, byte)));
}

// What all layouts have: blocks of kUnitValues inputs and kBytes bytes, codes below 2^kBits with
// the zero at 2^kZeroShift (or none: -1), and as many scales and minima per 32 inputs.
//
// A layout defines unpack(unit, head, j, table, out) for inputs 32 j to 32 j + 31 of a unit. What
// is done once per unit is its Head, filled by open(unit, head).
template <int kUnitValues, int kBytes, int kBits, int kZeroShift, int kScales, int kMins>
struct Format {
  static constexpr int kBlocks = kUnitValues / kBlockValues;
  static constexpr int kUnitBytes = kTileRows * kBytes;
  static constexpr int kCodeBits = kBits;
  static constexpr int kScaleCount = kScales, kMinCount = kMins;
  // The offset that is left after what the dot product took off by itself.
  static constexpr bool kOffset = kZeroShift >= 0 && !(kBits == 8 && kFullBias == 128);
  static constexpr int kShift = kZeroShift;

  struct Head {};
  static void open(const uint8_t*, Head&) {}
};

// Bits kFrom and up of each byte, those of `mask`.
template <int kFrom>
inline ByteVec bits_of(ByteVec v, int mask) {
  return and_mask(move_bits<-kFrom>(v), mask);
}

// Of 4 words per row: low nibbles are inputs 0-15, high nibbles inputs 16-31.
inline void unpack_nibbles(const uint8_t* words, ByteVec* codes) {
  for (int g = 0; g < 4; ++g) {
    const ByteVec v = load_bytes(words + 64 * g);
    codes[g] = bits_of<0>(v, 15);
    codes[g + 4] = bits_of<4>(v, 15);
  }
}

// Of 8 words per row, a word of codes each: the bits from kFrom on.
template <int kFrom>
inline void unpack_bits(const uint8_t* words, int mask, ByteVec* codes) {
  for (int g = 0; g < kGroups; ++g) codes[g] = bits_of<kFrom>(load_bytes(words + 64 * g), mask);
}

// The low nibbles of 8 words, or the high ones.
inline void unpack_half(const uint8_t* words, int which, ByteVec* codes) {
  if (which == 0) return unpack_bits<0>(words, 15, codes);
  unpack_bits<4>(words, 15, codes);
}

// One of the four pairs of bits in 8 words.
inline void unpack_quarter(const uint8_t* words, int which, ByteVec* codes) {
  if (which == 0) return unpack_bits<0>(words, 3, codes);
  if (which == 1) return unpack_bits<2>(words, 3, codes);
  if (which == 2) return unpack_bits<4>(words, 3, codes);
  unpack_bits<6>(words, 3, codes);
}

// Adds `value` to the codes whose byte in 8 words per row has the bit `bit`.
inline void add_bits(const uint8_t* words, int bit, int value, ByteVec* codes) {
  for (int g = 0; g < kGroups; ++g) {
    codes[g] = add_where(codes[g], load_bytes(words + 64 * g), bit, value);
  }
}

inline void look_up_all(ByteVec table, ByteVec* codes) {
  for (int g = 0; g < kGroups; ++g) codes[g] = look_up(table, codes[g]);
}

// The integers of 16 rows, times d.
inline Vec times(Vec d, const uint8_t* integers) { return mul(d, to_float(load_int8(integers))); }

struct FormatQ4_0 : Format<32, 18, 4, 3, 1, 0> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec, Block& out) {
    out.scales[0] = half_at(unit, 0);
    unpack_nibbles(item(unit, 2), out.codes);
  }
};

struct FormatQ4_1 : Format<32, 20, 4, -1, 1, 1> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec, Block& out) {
    out.scales[0] = half_at(unit, 0);
    out.mins[0] = sub(zero(), half_at(unit, 2));
    unpack_nibbles(item(unit, 4), out.codes);
  }
};

// The fifth bits are a word per row: bit 8 t + g is that of group g's code t.
inline void add_fifth_bits(const uint8_t* words, ByteVec* codes) {
  const ByteVec plane = load_bytes(words);
  for (int g = 0; g < kGroups; ++g) codes[g] = add_where(codes[g], plane, g, 16);
}

struct FormatQ5_0 : Format<32, 22, 5, 4, 1, 0> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec, Block& out) {
    out.scales[0] = half_at(unit, 0);
    unpack_nibbles(item(unit, 6), out.codes);
    add_fifth_bits(item(unit, 2), out.codes);
  }
};

struct FormatQ5_1 : Format<32, 24, 5, -1, 1, 1> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec, Block& out) {
    out.scales[0] = half_at(unit, 0);
    out.mins[0] = sub(zero(), half_at(unit, 2));
    unpack_nibbles(item(unit, 8), out.codes);
    add_fifth_bits(item(unit, 4), out.codes);
  }
};

// Codes have their top bit flipped.
struct FormatQ8_0 : Format<32, 34, 8, 7, 1, 0> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec, Block& out) {
    out.scales[0] = half_at(unit, 0);
    for (int g = 0; g < kGroups; ++g) out.codes[g] = load_bytes(item(unit, 2 + 4 * g));
  }
};

// Scale and minimum, of 4 bits each, per 16 inputs.
struct FormatQ2_K : Format<256, 84, 2, -1, 2, 2> {
  struct Head {
    Vec d, d_min;
    alignas(64) uint8_t scales[256], mins[256];
  };
  static void open(const uint8_t* unit, Head& head) {
    head.d = half_at(unit, 80);
    head.d_min = half_at(unit, 82);
    for (int at = 0; at < 256; at += 64) {
      const ByteVec both = load_bytes(unit + at);
      store_bytes(head.scales + at, bits_of<0>(both, 15));
      store_bytes(head.mins + at, bits_of<4>(both, 15));
    }
  }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec, Block& out) {
    for (int half = 0; half < 2; ++half) {
      const int at = kTileRows * (2 * j + half);
      out.scales[half] = times(head.d, head.scales + at);
      out.mins[half] = times(head.d_min, head.mins + at);
    }
    unpack_quarter(item(unit, 16 + 32 * (j / 4)), j % 4, out.codes);
  }
};

// A scale of 6 bits per 16 inputs, in 12 bytes: low nibbles in the first 8, high bits in the rest.
struct FormatQ3_K : Format<256, 110, 3, 2, 2, 0> {
  struct Head {
    Vec d;
    alignas(64) uint8_t scales[256];
  };
  static void open(const uint8_t* unit, Head& head) {
    head.d = half_at(unit, 108);
    const ByteVec first = load_bytes(item(unit, 96)), second = load_bytes(item(unit, 100));
    const ByteVec high = load_bytes(item(unit, 104));
    const auto put = [&](int at, ByteVec low, ByteVec two) {
      store_bytes(head.scales + at, sub_bytes(or_masked(low, two, 48), 32));
    };
    put(0, bits_of<0>(first, 15), move_bits<4>(high));
    put(64, bits_of<0>(second, 15), move_bits<2>(high));
    put(128, bits_of<4>(first, 15), high);
    put(192, bits_of<4>(second, 15), move_bits<-2>(high));
  }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec, Block& out) {
    for (int half = 0; half < 2; ++half) {
      out.scales[half] = times(head.d, head.scales + kTileRows * (2 * j + half));
    }
    unpack_quarter(item(unit, 32 + 32 * (j / 4)), j % 4, out.codes);
    add_bits(unit, j, 4, out.codes);
  }
};

// Q4_K and Q5_K: scale and minimum of 6 bits each per 32 inputs, in 12 bytes. Bytes 0-3 and 4-7
// have the first four scales and minima; their high bits and bytes 8-11 are the last four.
struct SixBitHead {
  Vec d, d_min;
  alignas(64) uint8_t scales[128], mins[128];
};

inline void open_six_bits(const uint8_t* unit, SixBitHead& head) {
  head.d = half_at(unit, 0);
  head.d_min = half_at(unit, 2);
  const ByteVec scales = load_bytes(item(unit, 4)), mins = load_bytes(item(unit, 8));
  const ByteVec low = load_bytes(item(unit, 12));
  store_bytes(head.scales, bits_of<0>(scales, 63));
  store_bytes(head.mins, bits_of<0>(mins, 63));
  store_bytes(head.scales + 64, or_masked(bits_of<0>(low, 15), move_bits<-2>(scales), 48));
  store_bytes(head.mins + 64, or_masked(bits_of<4>(low, 15), move_bits<-2>(mins), 48));
}

inline void unpack_six_bits(const SixBitHead& head, int j, Block& out) {
  out.scales[0] = times(head.d, head.scales + kTileRows * j);
  out.mins[0] = times(head.d_min, head.mins + kTileRows * j);
}

struct FormatQ4_K : Format<256, 144, 4, -1, 1, 1> {
  using Head = SixBitHead;
  static void open(const uint8_t* unit, Head& head) { open_six_bits(unit, head); }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec, Block& out) {
    unpack_six_bits(head, j, out);
    unpack_half(item(unit, 16 + 32 * (j / 2)), j % 2, out.codes);
  }
};

struct FormatQ5_K : Format<256, 176, 5, -1, 1, 1> {
  using Head = SixBitHead;
  static void open(const uint8_t* unit, Head& head) { open_six_bits(unit, head); }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec, Block& out) {
    unpack_six_bits(head, j, out);
    unpack_half(item(unit, 48 + 32 * (j / 2)), j % 2, out.codes);
    add_bits(item(unit, 16), j, 16, out.codes);
  }
};

// A scale of 8 bits, with its sign, per 16 inputs. Of codes, 128 inputs have 16 words of nibbles,
// the low ones those of the first 64 inputs, and 8 words of four pairs of bits.
struct FormatQ6_K : Format<256, 210, 6, 5, 2, 0> {
  struct Head {
    Vec d;
  };
  static void open(const uint8_t* unit, Head& head) { head.d = half_at(unit, 208); }
  template <int kQuarter>
  static void unpack_codes(const uint8_t* low, const uint8_t* high, ByteVec* codes) {
    for (int g = 0; g < kGroups; ++g) {
      const ByteVec four = bits_of<kQuarter / 2 * 4>(load_bytes(low + 64 * g), 15);
      codes[g] = or_masked(four, move_bits<4 - 2 * kQuarter>(load_bytes(high + 64 * g)), 48);
    }
  }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec, Block& out) {
    for (int half = 0; half < 2; ++half) {
      out.scales[half] = times(head.d, item(unit, 192 + 2 * j + half));
    }
    const uint8_t* low = item(unit, 64 * (j / 4) + 32 * (j % 2));
    const uint8_t* high = item(unit, 128 + 32 * (j / 4));
    if (j % 4 == 0) return unpack_codes<0>(low, high, out.codes);
    if (j % 4 == 1) return unpack_codes<1>(low, high, out.codes);
    if (j % 4 == 2) return unpack_codes<2>(low, high, out.codes);
    unpack_codes<3>(low, high, out.codes);
  }
};

struct FormatIQ4_NL : Format<32, 18, 8, 7, 1, 0> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec table, Block& out) {
    out.scales[0] = half_at(unit, 0);
    unpack_nibbles(item(unit, 2), out.codes);
    look_up_all(table, out.codes);
  }
};

// A scale of 6 bits per 32 inputs: the high bits of four in a byte, the low ones of two.
struct FormatIQ4_XS : Format<256, 136, 8, 7, 1, 0> {
  struct Head {
    Vec d;
    alignas(64) uint8_t high[4][64], low[2][64];
  };
  static void open(const uint8_t* unit, Head& head) {
    head.d = half_at(unit, 0);
    const ByteVec high = load_bytes(item(unit, 2)), low = load_bytes(item(unit, 4));
    store_bytes(head.high[0], bits_of<0>(high, 3));
    store_bytes(head.high[1], bits_of<2>(high, 3));
    store_bytes(head.high[2], bits_of<4>(high, 3));
    store_bytes(head.high[3], bits_of<6>(high, 3));
    store_bytes(head.low[0], bits_of<0>(low, 15));
    store_bytes(head.low[1], bits_of<4>(low, 15));
  }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec table, Block& out) {
    const Vec high = to_float(load_int8(head.high[j % 4] + kTileRows * (j / 4)));
    const Vec low = to_float(load_int8(head.low[j % 2] + kTileRows * (j / 2)));
    const Vec scale = fma(high, broadcast(16), sub(low, broadcast(32)));
    out.scales[0] = mul(head.d, scale);
    unpack_nibbles(item(unit, 8 + 16 * j), out.codes);
    look_up_all(table, out.codes);
  }
};

// A scale of 2^(e - 128), where the byte for e has its top bit flipped. The smallest ones are not
// normal, so it is a product of two that are.
struct FormatMXFP4 : Format<32, 17, 7, 6, 1, 0> {
  static void unpack(const uint8_t* unit, const Head&, int, ByteVec table, Block& out) {
    const Vec exponent = to_float(load_int8(unit));
    const Vec half = round_nearest(mul(exponent, broadcast(0.5f)));
    out.scales[0] = mul(exp2_integral(half), exp2_integral(sub(exponent, half)));
    unpack_nibbles(item(unit, 1), out.codes);
    look_up_all(table, out.codes);
  }
};

struct FormatGrid : Format<256, 148, 7, 6, 2, 0> {
  struct Head {
    Vec d;
  };
  static void open(const uint8_t* unit, Head& head) {
    head.d = load(reinterpret_cast<const float*>(unit));
  }
  static void unpack(const uint8_t* unit, const Head& head, int j, ByteVec table, Block& out) {
    for (int half = 0; half < 2; ++half) {
      out.scales[half] = times(head.d, item(unit, 4 + 2 * j + half));
    }
    unpack_nibbles(item(unit, 20 + 16 * j), out.codes);
    look_up_all(table, out.codes);
  }
};

}  // namespace
}  // namespace maglio

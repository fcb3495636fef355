// How long products of bytes can be added in 16 bits.
#pragma once

namespace maglio {
namespace {

// How many groups fit where each adds `products` products of a code and a value in [-127, 127].
// Codes are below 2^bits, those of 8 bits in [-128, 127].
constexpr int groups_in_16_bits(int bits, int products) {
  const int largest_code = bits == 8 ? 128 : (1 << bits) - 1;
  return 32767 / (products * 127 * largest_code);
}

}  // namespace
}  // namespace maglio

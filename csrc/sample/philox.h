// Philox4x32-10, a counter-based random generator: a draw is a pure function of (seed, position).
//
// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace maglio {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// Independent streams of random numbers under one seed: the third word of the counter.
enum class RandomStream : uint32_t { kDraw = 0, kXtc = 1 };

// The uniform draw at `position` of the stream `seed`, as the integer numerator of a multiple of
// 2^-53 in [0, 1). Kept an integer so that scaling it to a total mass can be exact.
inline uint64_t uniform53(uint64_t seed, uint64_t position,
                          RandomStream stream = RandomStream::kDraw) {
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                  static_cast<uint32_t>(stream), 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (words[0] | static_cast<uint64_t>(words[1]) << 32) >> 11;
}

}  // namespace maglio

// A token that may be chosen, packed so that one integer comparison is the candidate order.
#pragma once

#include <cstdint>
#include <cstring>

namespace maglio {

// Orders tokens by logit, then by id: a larger key is a larger logit, or the same logit and a lower
// id. -0 and +0 are the same logit. Not for NaN.
inline uint64_t candidate_key(float logit, uint32_t id) {
  const float unsigned_zero = logit + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &unsigned_zero, sizeof bits);
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | static_cast<uint32_t>(~id);
}

inline int32_t candidate_id(uint64_t key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}

}  // namespace maglio

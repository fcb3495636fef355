// A count in one byte: exact up to 15, above that rounded down to four significant bits.
#ifndef MAGLIO_SMALL_COUNT_H_
#define MAGLIO_SMALL_COUNT_H_

#include <cstdint>

namespace maglio {

// `count` is not negative. What a count above 15 is shifted right by to lie in 8..15, times 8, plus
// what it then is.
inline uint8_t pack_count(int32_t count) {
  int shift = 0;
  while ((count >> shift) > 15) ++shift;
  return static_cast<uint8_t>(8 * shift + (count >> shift));
}

// Any byte is a count, so bytes from a file need no check.
inline int64_t unpack_count(uint8_t packed) {
  if (packed < 16) return packed;
  return int64_t{packed % 8 + 8} << (packed / 8 - 1);
}

}  // namespace maglio

#endif  // MAGLIO_SMALL_COUNT_H_

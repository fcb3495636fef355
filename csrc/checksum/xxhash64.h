// XXH64, Yann Collet's 64-bit checksum (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). It guards
// files against accidents, not against forgery.
#ifndef MAGLIO_XXHASH64_H_
#define MAGLIO_XXHASH64_H_

#include <cstddef>
#include <cstdint>

namespace maglio {

uint64_t xxhash64(const void* data, size_t bytes, uint64_t seed);

}  // namespace maglio

#endif  // MAGLIO_XXHASH64_H_

// Caches in a file, so that another process goes on from them.
//
// The file is a header, an index and the pages. The index has a checksum of every page, and of each
// cache whose it is, its tokens and which pages it is made of; a page that caches share is there
// once. Of recurrent layers it has the state at the floor and the rows from there on, from which
// any length of the cache can be reached. All of it is in the byte order of the machine.
//
// Whatever is in a file, reading it ends in CacheFileError or in caches that are safe to compute
// with. That they hold what their tokens say is as certain as that nobody else wrote the file:
// checksums guard against accidents, not against forgery.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/engine.h"

namespace maglio {

// what() says why, without naming the file.
struct CacheFileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SavedCache {
  std::array<uint8_t, 32> owner{};
  std::vector<int32_t> tokens;  // as many as the cache holds
  std::shared_ptr<Cache> cache;
};

// Writes caches of `engine` to an open, empty file. `key` tells apart engines whose rows differ.
// What does not fit into 256 MiB of tokens and numbers of pages is left out, from the end.
// Throws InvalidInput when a cache and its tokens differ in length or it is another engine's, and
// CacheFileError when the file cannot be written.
void write_caches(const Engine& engine, uint64_t key, const std::vector<SavedCache>& caches,
                  int descriptor);

// Reads the first caches of a file that write_caches() wrote with this key: as many as have no more
// than max_bytes of pages together, and as there is memory for. Those that are longer than n_ctx
// are left out. Throws CacheFileError.
std::vector<SavedCache> read_caches(const Engine& engine, uint64_t key, int n_ctx, size_t max_bytes,
                                    int descriptor);

}  // namespace maglio

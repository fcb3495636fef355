#include "draft/edge_blocks.h"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace maglio {
namespace {

constexpr int32_t kScanned = 8;  // one cache line of edges

int log2_ceil(uint32_t x) { return x <= 1 ? 0 : 32 - __builtin_clz(x - 1); }

// Fibonacci hashing: the top bits of a product with 2^32 / golden ratio.
uint32_t home_slot(int32_t token, size_t slots) {
  const int bits = log2_ceil(static_cast<uint32_t>(slots));
  return (static_cast<uint32_t>(token) * 2654435769u) >> (32 - bits);
}

// The slot that holds `token`, or the empty one where it belongs.
size_t probe(const Edge* block, size_t slots, int32_t token) {
  size_t i = home_slot(token, slots);
  while (block[i].token != token && block[i].token != kNone) i = (i + 1) & (slots - 1);
  return i;
}

}  // namespace

size_t EdgeBlocks::capacity(int32_t count) {
  const uint32_t n = static_cast<uint32_t>(count);
  // Hash tables stay at most three quarters full.
  return size_t{1} << log2_ceil(count <= kScanned ? n : n + (n + 2) / 3);
}

int32_t EdgeBlocks::find(const EdgeSet& set, int32_t token) const {
  if (set.token >= kNone) return set.token == token ? set.target : kNone;
  const Edge* block = pool_.data() + set.target;
  const int32_t count = set.count();
  if (count <= kScanned) {
    for (int32_t i = 0; i < count; ++i) {
      if (block[i].token == token) return block[i].target;
    }
    return kNone;
  }
  const Edge& edge = block[probe(block, capacity(count), token)];
  return edge.token == token ? edge.target : kNone;
}

void EdgeBlocks::prefetch(const EdgeSet& set, int32_t token) const {
  if (set.token >= kNone) return;
  const int32_t count = set.count();
  const size_t home = count <= kScanned ? 0 : home_slot(token, capacity(count));
  __builtin_prefetch(pool_.data() + set.target + home);
}

Edge* EdgeBlocks::slot(const EdgeSet& set, int32_t token) {
  Edge* block = pool_.data() + set.target;
  const int32_t count = set.count();
  if (count > kScanned) return block + probe(block, capacity(count), token);
  int32_t i = 0;
  while (i < count && block[i].token != token) ++i;
  return block + i;
}

void EdgeBlocks::redirect(EdgeSet* set, int32_t token, int32_t target) {
  if (set->token >= 0) {
    set->target = target;
  } else {
    slot(*set, token)->target = target;
  }
}

void EdgeBlocks::add(EdgeSet* set, int32_t token, int32_t target) {
  const int32_t count = set->count();
  if (count == 0) {
    *set = EdgeSet{token, target};
    return;
  }
  const size_t slots = capacity(count + 1);
  if (count == 1) {
    const int32_t block = allocate(slots);
    insert(block, 0, Edge{set->token, set->target});
    set->target = block;
  } else if (const size_t old = capacity(count); old != slots) {
    const int32_t block = allocate(slots);
    int32_t moved = 0;
    for (size_t i = 0; i < old; ++i) {
      const Edge edge = pool_[set->target + i];
      // The new layout is the one for the final count, hence scanned or hashed as a whole.
      if (edge.token != kNone) {
        if (count + 1 <= kScanned) {
          pool_[block + moved] = edge;
        } else {
          pool_[block + probe(pool_.data() + block, slots, edge.token)] = edge;
        }
        ++moved;
      }
    }
    recycle(set->target, old);
    set->target = block;
  }
  insert(set->target, count, Edge{token, target});
  set->token = -(count + 1);
}

// Puts one more edge into a block that holds `count` and has room for it.
void EdgeBlocks::insert(int32_t offset, int32_t count, const Edge& edge) {
  Edge* block = pool_.data() + offset;
  const size_t i = count + 1 <= kScanned ? static_cast<size_t>(count)
                                         : probe(block, capacity(count + 1), edge.token);
  block[i] = edge;
}

EdgeSet EdgeBlocks::copy(const EdgeSet& set) {
  if (set.token >= kNone) return set;
  const size_t slots = capacity(set.count());
  const int32_t block = allocate(slots);
  std::memcpy(pool_.data() + block, pool_.data() + set.target, slots * sizeof(Edge));
  return EdgeSet{set.token, block};
}

int32_t EdgeBlocks::allocate(size_t slots) {
  uint32_t& head = free_[log2_ceil(static_cast<uint32_t>(slots))];
  size_t offset;
  if (head != 0) {
    offset = head - 1;
    head = static_cast<uint32_t>(pool_[offset].target);
  } else {
    offset = pool_.size();
    if (offset + slots > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw std::length_error("the suffix automaton has no room for more transitions");
    }
    pool_.append_raw(slots);
  }
  for (size_t i = 0; i < slots; ++i) pool_[offset + i] = Edge{kNone, kNone};
  return static_cast<int32_t>(offset);
}

void EdgeBlocks::recycle(int32_t offset, size_t slots) {
  uint32_t& head = free_[log2_ceil(static_cast<uint32_t>(slots))];
  pool_[offset].target = static_cast<int32_t>(head);
  head = static_cast<uint32_t>(offset) + 1;
}

bool EdgeBlocks::in_pool(const EdgeSet& set) const {
  if (set.token >= kNone) return true;
  return set.target >= 0 && set.target + capacity(set.count()) <= pool_.size();
}

void EdgeBlocks::clear() {
  pool_.shrink(0);
  free_.fill(0);
}

void EdgeBlocks::release() {
  pool_.release();
  free_.fill(0);
}

}  // namespace maglio

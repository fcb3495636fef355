// EdgeBlocks: the outgoing transitions of automaton states, a few bytes each.
//
// Most states have one transition, and it lives inside the state. The others own a block in one
// shared pool: scanned in order up to 8 edges, an open-addressing hash table above. A block's
// capacity is a function of its edge count alone, so neither is stored beside it. Edges are never
// removed; a block that was outgrown is kept on a free list for the next block of its size.
#ifndef MAGLIO_EDGE_BLOCKS_H_
#define MAGLIO_EDGE_BLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "draft/pod_array.h"

namespace maglio {

constexpr int32_t kNone = -1;

struct Edge {
  int32_t token;
  int32_t target;
};

// How a state refers to its transitions. No edge: token = -1. One edge: token >= 0, inline.
// `count` >= 2 edges: token = -count, and target is the block's offset in the pool.
struct EdgeSet {
  int32_t token = kNone;
  int32_t target = kNone;

  int32_t count() const { return token >= 0 ? 1 : token == kNone ? 0 : -token; }
};

class EdgeBlocks {
 public:
  // The target of `token`, or kNone.
  int32_t find(const EdgeSet& set, int32_t token) const;
  // Asks the processor to load what find() will read.
  void prefetch(const EdgeSet& set, int32_t token) const;
  // Adds a transition that is not there. Throws std::bad_alloc, or std::length_error when the pool
  // has no offsets left.
  void add(EdgeSet* set, int32_t token, int32_t target);
  // Changes the target of a transition that is there.
  void redirect(EdgeSet* set, int32_t token, int32_t target);
  // A set with the same transitions in a block of its own. Throws like add().
  EdgeSet copy(const EdgeSet& set);

  // Calls visit(edge) for every transition, in no particular order.
  template <typename Visit>
  void for_each(const EdgeSet& set, Visit visit) const {
    if (set.token >= 0) visit(Edge{set.token, set.target});
    if (set.token >= kNone) return;
    const Edge* block = pool_.data() + set.target;
    const size_t slots = capacity(set.count());
    for (size_t i = 0; i < slots; ++i) {
      if (block[i].token != kNone) visit(block[i]);
    }
  }

  // Forgets every block and keeps the memory.
  void clear();
  // Forgets every block and gives the memory back.
  void release();
  size_t memory_bytes() const { return pool_.capacity_bytes(); }
  size_t pool_size() const { return pool_.size(); }
  // Whether `set` lies inside the pool, which is what makes reading it safe.
  bool in_pool(const EdgeSet& set) const;

  // Slots of a block with `count` >= 2 edges.
  static size_t capacity(int32_t count);

 private:
  Edge* slot(const EdgeSet& set, int32_t token);
  int32_t allocate(size_t slots);
  void recycle(int32_t offset, size_t slots);
  void insert(int32_t offset, int32_t count, const Edge& edge);

  PodArray<Edge> pool_;
  // Head of the free list of blocks of 2^i slots, offset by one so that 0 means empty.
  std::array<uint32_t, 32> free_{};
};

}  // namespace maglio

#endif  // MAGLIO_EDGE_BLOCKS_H_

// Softmax attention over a cache. Included once per instruction set.
//
// A query walks the cache in blocks of 64 positions that begin at multiples of 64, with a running
// maximum, sum and output (online softmax, Milakov and Gimelshein 2018). A score is one
// accumulator over the head's dimensions in order; an output adds positions in order, or exactly.
// So a row's bits depend on its own positions only; how many queries share a pass does not matter.
//
// What a cache holds is a template parameter (half_cache.h, code_cache.h): how a query is prepared,
// how a block's keys are scored, and how its values are added.
#pragma once

#include "kernels/code_cache.h"
#include "kernels/half_cache.h"

namespace maglio {
namespace {

constexpr int kQueriesAtOnce = 4;  // as many as AVX-512 has registers for

inline int block_begin(int position) { return position / kAttentionBlock * kAttentionBlock; }

// One block of one head.
struct CacheBlock {
  const uint8_t* keys;
  const uint8_t* next;  // keys that are read next
  const uint8_t* values;
  int start;
  int head_dim;
};

// Capped or not is decided outside: the cap's code inside the loop costs a tenth of a long step.
template <typename Store, int kQueries, bool kCapped>
void attend_block(const CacheBlock& block, float cap, const AttentionQuery* queries,
                  const typename Store::Query* prepared, SoftmaxState* states) {
  Vec scores[kQueries][kTilesPerBlock];
  Store::template score_block<kQueries>(block.keys, block.next, block.head_dim, prepared, scores);
  if constexpr (kCapped) {
    for (int n = 0; n < kQueries; ++n) {
      for (Vec& score : scores[n]) score = soft_cap_vec(score, cap);
    }
  }
  int lo[kQueries], hi[kQueries];
  float shrink[kQueries];
  bool same = true;
  for (int n = 0; n < kQueries; ++n) {
    const int first = queries[n].first - block.start, last = queries[n].last - block.start;
    lo[n] = first > 0 ? first : 0;
    hi[n] = last < kAttentionBlock ? last : kAttentionBlock;
    same = same && lo[n] == lo[0] && hi[n] == hi[0];
    if (lo[n] < hi[n]) shrink[n] = update_softmax(states[n], scores[n], lo[n], hi[n]);
  }
  if (same) {
    if (lo[0] < hi[0]) {
      Store::template add_values<kQueries>(block.values, block.head_dim, lo[0], hi[0], states,
                                           shrink, queries);
    }
    return;
  }
  // A query must not even multiply by zero the values of positions it may not see.
  for (int n = 0; n < kQueries; ++n) {
    if (lo[n] < hi[n]) {
      Store::template add_values<1>(block.values, block.head_dim, lo[n], hi[n], states + n,
                                    shrink + n, queries + n);
    }
  }
}

// All queries read a block before the next one, so that a long cache comes from memory once.
template <typename Store, bool kCapped>
void attend_queries(const CacheHead& cache, int head_dim, float cap, const AttentionQuery* queries,
                    int count) {
  SoftmaxState states[kMaxAttentionQueries];
  typename Store::Query prepared[kMaxAttentionQueries];
  int begin = queries[0].first, end = queries[0].last;
  for (int n = 0; n < count; ++n) {
    begin_softmax(states[n], queries[n].sink);
    Store::prepare(queries[n], head_dim, prepared[n]);
    for (int d = 0; d < head_dim; d += 16) store(queries[n].out + d, zero());
    begin = queries[n].first < begin ? queries[n].first : begin;
    end = queries[n].last > end ? queries[n].last : end;
  }
  for (int start = block_begin(begin); start < end; start += kAttentionBlock) {
    const int at = start / kAttentionBlock;
    const uint8_t* page = cache.pages[at];
    const uint8_t* next = start + kAttentionBlock < end ? cache.pages[at + 1] : page;
    for (int n = 0; n < count; n += kQueriesAtOnce, next = page) {
      const CacheBlock block{page + cache.keys, next + cache.keys, page + cache.values, start,
                             head_dim};
      with_count(count - n < kQueriesAtOnce ? count - n : kQueriesAtOnce, [&](auto width) {
        attend_block<Store, decltype(width)::value, kCapped>(block, cap, queries + n, prepared + n,
                                                             states + n);
      });
    }
  }
  for (int n = 0; n < count; ++n) {
    const Vec inverse = broadcast(1.0f / reduce_add(states[n].sum));
    for (int d = 0; d < head_dim; d += 16) {
      store(queries[n].out + d, mul(load(queries[n].out + d), inverse));
    }
  }
}

template <typename Work>
auto with_store(CacheType type, Work work) {
  return type == CacheType::kF16 ? work(HalfCache{}) : work(CodeCache{});
}

void attend(const CacheHead& cache, int head_dim, float cap, const AttentionQuery* queries, int n) {
  with_store(cache.type, [&](auto store) {
    using Store = decltype(store);
    return cap == 0.0f ? attend_queries<Store, false>(cache, head_dim, cap, queries, n)
                       : attend_queries<Store, true>(cache, head_dim, cap, queries, n);
  });
}

// The tile that a position's key or value lies in.
inline uint8_t* tile_of(const CacheHead& cache, size_t side, int head_dim, int position) {
  const int tile = position % kAttentionBlock / kKeyTile;
  return cache.pages[position / kAttentionBlock] + side +
         cache_tile_bytes(cache.type, head_dim) * static_cast<size_t>(tile);
}

void keep_key(const CacheHead& cache, int head_dim, int position, const float* x) {
  uint8_t* const tile = tile_of(cache, cache.keys, head_dim, position);
  with_store(cache.type, [&](auto store) {
    decltype(store)::keep_key(tile, position % kKeyTile, head_dim, x);
  });
}

void keep_value(const CacheHead& cache, int head_dim, int position, const float* x) {
  uint8_t* const tile = tile_of(cache, cache.values, head_dim, position);
  with_store(cache.type, [&](auto store) {
    decltype(store)::keep_value(tile, position % kKeyTile, head_dim, x);
  });
}

}  // namespace
}  // namespace maglio

// Softmax attention over a half-precision cache. Included once per instruction set.
//
// A query walks the cache in blocks of 64 positions that begin at multiples of 64, with a running
// maximum, sum and output (online softmax, Milakov and Gimelshein 2018). A score is one
// accumulator over the head's dimensions in order; an output adds positions in order. So a row's
// bits depend on its own positions only; how many queries share a pass does not matter.
#pragma once

#include <limits>

#include "kernels/elementwise.h"

namespace maglio {
namespace {

constexpr int kTilesPerBlock = kAttentionBlock / kKeyTile;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

struct SoftmaxState {
  float maximum;
  Vec sum;
  alignas(64) float weights[kAttentionBlock];
};

// scores[n][tile]: products of each query with the 64 keys of a block. The keys of the `next` one
// are far away, where no hardware expects the next access: asked for in time they cost nothing, and
// a long context would be a tenth slower otherwise.
template <int kQueries>
[[gnu::always_inline]] inline void score_block(const uint16_t* keys, const uint16_t* next,
                                               int head_dim, const AttentionQuery* queries,
                                               Vec scores[][kTilesPerBlock]) {
  for (int n = 0; n < kQueries; ++n) {
    for (int t = 0; t < kTilesPerBlock; ++t) scores[n][t] = zero();
  }
  const size_t tile_size = static_cast<size_t>(head_dim) * kKeyTile;
  for (int d = 0; d < head_dim; ++d) {
    __builtin_prefetch(next + d * kAttentionBlock, 0, 2);
    __builtin_prefetch(next + d * kAttentionBlock + kAttentionBlock / 2, 0, 2);
    Vec key[kTilesPerBlock];
    for (int t = 0; t < kTilesPerBlock; ++t)
      key[t] = load_half(keys + t * tile_size + d * kKeyTile);
    for (int n = 0; n < kQueries; ++n) {
      const Vec q = broadcast(queries[n].query[d]);
      for (int t = 0; t < kTilesPerBlock; ++t) scores[n][t] = fma(q, key[t], scores[n][t]);
    }
  }
}

// A sink is what every query begins with, before the first position it sees: its score is the
// maximum so far, and it weighs one beside it.
inline void begin_softmax(SoftmaxState& state, float sink) {
  state.maximum = sink;
  state.sum = keep_range(broadcast(1.0f), 0, sink == kNoSink ? 0 : 1, 0.0f);
}

// Turns scores into weights relative to the new running maximum; returns the factor by which what
// was summed before has to shrink. Lanes outside [lo, hi) get weight zero.
float update_softmax(SoftmaxState& state, Vec* scores, int lo, int hi) {
  Vec top = broadcast(kMasked);
  for (int t = 0; t < kTilesPerBlock; ++t) {
    const int from = lo - t * kKeyTile, to = hi - t * kKeyTile;
    scores[t] = keep_range(scores[t],
                           from < 0    ? 0
                           : from > 16 ? 16
                                       : from,
                           to < 0    ? 0
                           : to > 16 ? 16
                                     : to,
                           kMasked);
    top = max(top, scores[t]);
  }
  const float block_maximum = reduce_max(top);
  const float maximum = state.maximum > block_maximum ? state.maximum : block_maximum;
  // e^-inf is not computed: exp_vec clamps, and nothing was summed before the first block.
  float shrink = 0.0f;
  if (state.maximum != kMasked) {
    alignas(64) float lanes[16];
    store(lanes, exp_vec(broadcast(state.maximum - maximum)));
    shrink = lanes[0];
  }
  Vec weights[kTilesPerBlock];
  for (int t = 0; t < kTilesPerBlock; ++t) {
    const int from = lo - t * kKeyTile, to = hi - t * kKeyTile;
    weights[t] = keep_range(exp_vec(sub(scores[t], broadcast(maximum))),
                            from < 0    ? 0
                            : from > 16 ? 16
                                        : from,
                            to < 0    ? 0
                            : to > 16 ? 16
                                      : to,
                            0.0f);
    store(state.weights + t * kKeyTile, weights[t]);
  }
  const Vec block_sum = add(add(weights[0], weights[1]), add(weights[2], weights[3]));
  state.sum = fma(state.sum, broadcast(shrink), block_sum);
  state.maximum = maximum;
  return shrink;
}

// out = out * shrink + sum over positions [lo, hi) of weight * value, 64 dimensions at a time.
template <int kQueries>
[[gnu::always_inline]] inline void add_values(const uint16_t* values, int head_dim, int lo, int hi,
                                              const SoftmaxState* states, const float* shrink,
                                              const AttentionQuery* queries) {
  constexpr int kChunk = 4;
  for (int d = 0; d < head_dim; d += 16 * kChunk) {
    const int vecs = head_dim - d < 16 * kChunk ? (head_dim - d) / 16 : kChunk;
    Vec acc[kQueries][kChunk];
    for (int n = 0; n < kQueries; ++n) {
      for (int c = 0; c < vecs; ++c) {
        acc[n][c] = mul(load(queries[n].out + d + 16 * c), broadcast(shrink[n]));
      }
    }
    const auto accumulate = [&](auto count) {
      constexpr int kVecs = decltype(count)::value;
      for (int p = lo; p < hi; ++p) {
        Vec v[kVecs];
        const uint16_t* row = values + static_cast<size_t>(p) * head_dim + d;
        for (int c = 0; c < kVecs; ++c) v[c] = load_half(row + 16 * c);
        for (int n = 0; n < kQueries; ++n) {
          const Vec w = broadcast(states[n].weights[p]);
          for (int c = 0; c < kVecs; ++c) acc[n][c] = fma(w, v[c], acc[n][c]);
        }
      }
    };
    switch (vecs) {
      case 4:
        accumulate(Count<4>{});
        break;
      case 3:
        accumulate(Count<3>{});
        break;
      case 2:
        accumulate(Count<2>{});
        break;
      default:
        accumulate(Count<1>{});
    }
    for (int n = 0; n < kQueries; ++n) {
      for (int c = 0; c < vecs; ++c) store(queries[n].out + d + 16 * c, acc[n][c]);
    }
  }
}

inline int block_begin(int position) { return position / kAttentionBlock * kAttentionBlock; }

// Capped or not is decided outside: the cap's code inside the loop costs a tenth of a long step.
template <int kQueries, bool kCapped>
void attend_queries(const CacheHead& cache, int head_dim, float cap,
                    const AttentionQuery* queries) {
  SoftmaxState states[kQueries];
  for (int n = 0; n < kQueries; ++n) {
    begin_softmax(states[n], queries[n].sink);
    for (int d = 0; d < head_dim; d += 16) store(queries[n].out + d, zero());
  }
  int begin = queries[0].first, end = queries[0].last;
  for (int n = 1; n < kQueries; ++n) {
    begin = queries[n].first < begin ? queries[n].first : begin;
    end = queries[n].last > end ? queries[n].last : end;
  }
  for (int start = block_begin(begin); start < end; start += kAttentionBlock) {
    const int block = start / kAttentionBlock;
    const uint16_t* page = cache.pages[block];
    const uint16_t* next = start + kAttentionBlock < end ? cache.pages[block + 1] : page;
    const uint16_t* values = page + cache.values;
    Vec scores[kQueries][kTilesPerBlock];
    score_block<kQueries>(page + cache.keys, next + cache.keys, head_dim, queries, scores);
    if constexpr (kCapped) {
      for (int n = 0; n < kQueries; ++n) {
        for (Vec& score : scores[n]) score = soft_cap_vec(score, cap);
      }
    }
    int lo[kQueries], hi[kQueries];
    float shrink[kQueries];
    bool same = true;
    for (int n = 0; n < kQueries; ++n) {
      lo[n] = queries[n].first > start ? queries[n].first - start : 0;
      hi[n] = queries[n].last - start < kAttentionBlock ? queries[n].last - start : kAttentionBlock;
      same = same && lo[n] == lo[0] && hi[n] == hi[0];
      if (lo[n] < hi[n]) shrink[n] = update_softmax(states[n], scores[n], lo[n], hi[n]);
    }
    if (same) {
      if (lo[0] < hi[0]) {
        add_values<kQueries>(values, head_dim, lo[0], hi[0], states, shrink, queries);
      }
      continue;
    }
    // A query must not even multiply by zero the values of positions it may not see.
    for (int n = 0; n < kQueries; ++n) {
      if (lo[n] < hi[n]) {
        add_values<1>(values, head_dim, lo[n], hi[n], states + n, shrink + n, queries + n);
      }
    }
  }
  for (int n = 0; n < kQueries; ++n) {
    const Vec inverse = broadcast(1.0f / reduce_add(states[n].sum));
    for (int d = 0; d < head_dim; d += 16) {
      store(queries[n].out + d, mul(load(queries[n].out + d), inverse));
    }
  }
}

template <bool kCapped>
void attend_some(const CacheHead& cache, int head_dim, float cap, const AttentionQuery* queries,
                 int n) {
  switch (n) {
    case 4:
      return attend_queries<4, kCapped>(cache, head_dim, cap, queries);
    case 3:
      return attend_queries<3, kCapped>(cache, head_dim, cap, queries);
    case 2:
      return attend_queries<2, kCapped>(cache, head_dim, cap, queries);
    default:
      return attend_queries<1, kCapped>(cache, head_dim, cap, queries);
  }
}

void attend(const CacheHead& cache, int head_dim, float cap, const AttentionQuery* queries, int n) {
  return cap == 0.0f ? attend_some<false>(cache, head_dim, cap, queries, n)
                     : attend_some<true>(cache, head_dim, cap, queries, n);
}

}  // namespace
}  // namespace maglio

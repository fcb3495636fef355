// A cache of half-precision values: how a position is written, and a block of positions read.
// Included once per instruction set.
//
// A tile's keys are [head_dim][16 positions], so that a vector lane is a position; its values are
// [16 positions][head_dim].
#pragma once

#include "kernels/softmax_state.h"

namespace maglio {
namespace {

struct HalfCache {
  static constexpr CacheType kType = CacheType::kF16;

  struct Query {
    const float* values;
  };
  static void prepare(const AttentionQuery& query, int, Query& out) { out = {query.query}; }

  static void keep_key(uint8_t* tile, int lane, int head_dim, const float* x) {
    uint16_t* const to = reinterpret_cast<uint16_t*>(tile);
    uint16_t halves[16];
    for (int d = 0; d < head_dim; d += 16) {
      store_half(halves, load(x + d));
      for (int i = 0; i < 16; ++i) to[(d + i) * kKeyTile + lane] = halves[i];
    }
  }

  static void keep_value(uint8_t* tile, int lane, int head_dim, const float* x) {
    uint16_t* const to = reinterpret_cast<uint16_t*>(tile) + lane * head_dim;
    for (int d = 0; d < head_dim; d += 16) store_half(to + d, load(x + d));
  }

  // scores[n][tile]: products of each query with the 64 keys of a block. The keys of the `next` one
  // are far away, where no hardware expects the next access: asked for in time they cost nothing,
  // and a long context would be a tenth slower otherwise.
  template <int kQueries>
  [[gnu::always_inline]] static void score_block(const uint8_t* key_bytes,
                                                 const uint8_t* next_bytes, int head_dim,
                                                 const Query* queries,
                                                 Vec scores[][kTilesPerBlock]) {
    const uint16_t* const keys = reinterpret_cast<const uint16_t*>(key_bytes);
    const uint16_t* const next = reinterpret_cast<const uint16_t*>(next_bytes);
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
        const Vec q = broadcast(queries[n].values[d]);
        for (int t = 0; t < kTilesPerBlock; ++t) scores[n][t] = fma(q, key[t], scores[n][t]);
      }
    }
  }

  // out = out * shrink + sum over positions [lo, hi) of weight * value, 64 dimensions at a time.
  template <int kQueries>
  [[gnu::always_inline]] static void add_values(const uint8_t* value_bytes, int head_dim, int lo,
                                                int hi, const SoftmaxState* states,
                                                const float* shrink,
                                                const AttentionQuery* queries) {
    constexpr int kChunk = 4;
    const uint16_t* const values = reinterpret_cast<const uint16_t*>(value_bytes);
    for (int d = 0; d < head_dim; d += 16 * kChunk) {
      const int vecs = head_dim - d < 16 * kChunk ? (head_dim - d) / 16 : kChunk;
      Vec acc[kQueries][kChunk];
      for (int n = 0; n < kQueries; ++n) {
        for (int c = 0; c < vecs; ++c) {
          acc[n][c] = mul(load(queries[n].out + d + 16 * c), broadcast(shrink[n]));
        }
      }
      with_count(vecs, [&](auto count) {
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
      });
      for (int n = 0; n < kQueries; ++n) {
        for (int c = 0; c < vecs; ++c) store(queries[n].out + d + 16 * c, acc[n][c]);
      }
    }
  }
};

}  // namespace
}  // namespace maglio

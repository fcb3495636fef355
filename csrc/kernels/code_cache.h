// A cache of 8-bit codes, with a half-precision scale per position and 32 values of a head: how a
// position is written, and a block of positions read. Included once per instruction set.
//
// As llama.cpp's q8_0: scale = max |x| / 127, code = x / scale rounded to nearest even, and the
// scale is rounded to half precision afterwards. A last block of 16 values has a scale of its own.
//
// A tile's keys are [group of 4 values][16 positions][4] codes plus 128, its values are
// [16 values][8 pairs of positions][16][2] codes, and both end in scales, [block][16 positions]. So
// a vector lane is a position of the keys and a dimension of the values.
//
// Both products are sums of integers, which are exact: a query is quantized as the keys are, and
// the weights of a block of positions, each times its value's scale, to 15 bits.
#pragma once

#include <cfloat>

#include "kernels/softmax_state.h"

namespace maglio {
namespace {

struct CodeCache {
  static constexpr CacheType kType = CacheType::kQ8_0;
  static constexpr int kMaxBlocks = kMaxHeadDim / kBlockValues;
  static constexpr int kPair = 2;
  static constexpr int kGroup = 4;
  static constexpr int kStripe = 16 * kKeyTile;  // bytes of 16 dimensions of a tile's values
  static constexpr int kKeyOffset = 128;
  static constexpr float kMaxWeight = 32767.0f;

  struct Query {
    alignas(64) int8_t codes[kMaxHeadDim];
    float scales[kMaxBlocks];
    int32_t starts[kMaxBlocks];  // what the offset of the keys adds to a product, negated
  };

  // A head's 8-bit form. A last block of 16 values is filled up with zeros.
  struct Coded {
    alignas(64) float values[kMaxHeadDim];
    alignas(64) int8_t codes[kMaxHeadDim];
    alignas(64) float scales[kMaxBlocks];
    float scaled_sums[kMaxBlocks];
    int32_t neg_sums[2 * kMaxBlocks];
    int blocks;

    Coded(const float* x, int head_dim) : blocks(padded(head_dim) / kBlockValues) {
      for (int d = 0; d < head_dim; d += 16) store(values + d, load(x + d));
      if (head_dim % kBlockValues != 0) store(values + head_dim, zero());
      quantize({padded(head_dim), values, codes, scales, scaled_sums, neg_sums}, 0,
               static_cast<size_t>(blocks));
    }
    // What is not finite has an infinite scale: unlike NaN it survives being compared.
    void round_scales(uint16_t* halves) {
      for (int b = 0; b < kMaxBlocks; ++b) {
        if (b >= blocks) scales[b] = 0.0f;
        if (scales[b] != scales[b]) scales[b] = std::numeric_limits<float>::infinity();
      }
      store_half(halves, load(scales));
    }
  };
  static_assert(kMaxBlocks == 16, "scales are one vector");

  static void prepare(const AttentionQuery& query, int head_dim, Query& out) {
    const Coded coded(query.query, head_dim);
    for (int d = 0; d < padded(head_dim); ++d) out.codes[d] = coded.codes[d];
    for (int b = 0; b < coded.blocks; ++b) {
      out.scales[b] = coded.scales[b];
      const int32_t neg_sum = coded.neg_sums[2 * b] + coded.neg_sums[2 * b + 1];
      out.starts[b] = (kKeyOffset - kFullBias) * neg_sum;
    }
  }

  static uint16_t* scales_of(uint8_t* tile, int head_dim) {
    return reinterpret_cast<uint16_t*>(tile + head_dim * kKeyTile);
  }
  static const uint16_t* scales_of(const uint8_t* tile, int head_dim) {
    return reinterpret_cast<const uint16_t*>(tile + head_dim * kKeyTile);
  }

  static void keep_scales(Coded& coded, uint8_t* tile, int lane, int head_dim) {
    uint16_t halves[kMaxBlocks];
    coded.round_scales(halves);
    uint16_t* const to = scales_of(tile, head_dim);
    for (int b = 0; b < coded.blocks; ++b) to[b * kKeyTile + lane] = halves[b];
  }

  static void keep_key(uint8_t* tile, int lane, int head_dim, const float* x) {
    Coded coded(x, head_dim);
    for (int d = 0; d < head_dim; ++d) {
      tile[(d / kGroup * kKeyTile + lane) * kGroup + d % kGroup] =
          static_cast<uint8_t>(coded.codes[d] + kKeyOffset);
    }
    keep_scales(coded, tile, lane, head_dim);
  }

  static void keep_value(uint8_t* tile, int lane, int head_dim, const float* x) {
    Coded coded(x, head_dim);
    for (int d = 0; d < head_dim; ++d) {
      tile[d / 16 * kStripe + (lane / kPair * 16 + d % 16) * kPair + lane % kPair] =
          static_cast<uint8_t>(coded.codes[d]);
    }
    keep_scales(coded, tile, lane, head_dim);
  }

  // scores[n][tile]: products of each query with the 64 keys of a block; `next` are the keys of the
  // next one, as in HalfCache.
  template <int kQueries>
  [[gnu::always_inline]] static void score_block(const uint8_t* keys, const uint8_t* next,
                                                 int head_dim, const Query* queries,
                                                 Vec scores[][kTilesPerBlock]) {
    const size_t tile_bytes = cache_tile_bytes(kType, head_dim);
    for (int t = 0; t < kTilesPerBlock; ++t, keys += tile_bytes, next += tile_bytes) {
      Vec sums[kQueries];
      for (int n = 0; n < kQueries; ++n) sums[n] = zero();
      const uint16_t* scales = scales_of(keys, head_dim);
      int b = 0;
      for (; b < head_dim / kBlockValues; ++b) {
        for (int line = 0; line < 9; ++line) __builtin_prefetch(next + 544 * b + 64 * line, 0, 2);
        score_codes<kQueries, 8>(keys + b * kBlockValues * kKeyTile, scales, b, queries, sums);
      }
      if (head_dim % kBlockValues != 0) {
        score_codes<kQueries, 4>(keys + b * kBlockValues * kKeyTile, scales, b, queries, sums);
      }
      for (int n = 0; n < kQueries; ++n) scores[n][t] = sums[n];
    }
  }

  // One block of a tile's keys, kGroups times 4 dimensions.
  template <int kQueries, int kGroups>
  [[gnu::always_inline]] static void score_codes(const uint8_t* keys, const uint16_t* scales, int b,
                                                 const Query* queries, Vec* sums) {
    ByteVec codes[kGroups];
    for (int g = 0; g < kGroups; ++g) codes[g] = load_bytes(keys + 64 * g);
    const Vec scale = load_half(scales + b * kKeyTile);
    for (int n = 0; n < kQueries; ++n) {
      const int8_t* query = queries[n].codes + b * kBlockValues;
      const IntVec start = int_broadcast(queries[n].starts[b]);
      const IntVec sum = dot<8, kGroups>(start, codes, query);
      sums[n] = fma(to_float(sum), mul(scale, broadcast(queries[n].scales[b])), sums[n]);
    }
  }

  // The weights of a block of positions, each times the scale of its value, as 15-bit codes;
  // returns their scale. Scales outside [lo, hi) mean nothing.
  [[gnu::always_inline]] static float fold_scales(const Vec* scales, int lo, int hi,
                                                  const float* weights, int16_t* codes) {
    Vec folded[kTilesPerBlock];
    for (int t = 0; t < kTilesPerBlock; ++t) {
      folded[t] = mul(load(weights + t * kKeyTile), scales[t]);
    }
    if (lo > 0 || hi < kAttentionBlock) {
      for (int t = 0; t < kTilesPerBlock; ++t) folded[t] = keep_positions(folded[t], t, lo, hi, 0);
    }
    const float largest = reduce_max(max(max(folded[0], folded[1]), max(folded[2], folded[3])));
    // Smaller ones would overflow the reciprocal; they are zero for every purpose.
    const bool none = largest < 1e-30f, finite = largest <= FLT_MAX;
    const Vec inverse = broadcast(none || !finite ? 0.0f : kMaxWeight / largest);
    for (int t = 0; t < kTilesPerBlock; ++t) {
      store_int16(codes + t * kKeyTile, finite ? mul(folded[t], inverse) : zero());
    }
    if (!finite) return __builtin_nanf("");
    return none ? 0.0f : largest / kMaxWeight;
  }

  // out = out * shrink + sum over positions [lo, hi) of weight * value, 64 dimensions at a time.
  template <int kQueries>
  [[gnu::always_inline]] static void add_values(const uint8_t* values, int head_dim, int lo, int hi,
                                                const SoftmaxState* states, const float* shrink,
                                                const AttentionQuery* queries) {
    constexpr int kChunk = 4, kBlocks = 16 * kChunk / kBlockValues;
    const size_t tile_bytes = cache_tile_bytes(kType, head_dim);
    for (int d = 0; d < head_dim; d += 16 * kChunk) {
      const int stripes = head_dim - d < 16 * kChunk ? (head_dim - d) / 16 : kChunk;
      alignas(64) int16_t weights[kQueries][kBlocks][kAttentionBlock];
      float scales[kQueries][kBlocks];
      for (int b = 0; b < (stripes + 1) / 2; ++b) {
        Vec block_scales[kTilesPerBlock];
        for (int t = 0; t < kTilesPerBlock; ++t) {
          const uint16_t* tile_scales = scales_of(values + t * tile_bytes, head_dim);
          block_scales[t] = load_half(tile_scales + (d / kBlockValues + b) * kKeyTile);
        }
        for (int n = 0; n < kQueries; ++n) {
          scales[n][b] = fold_scales(block_scales, lo, hi, states[n].weights, weights[n][b]);
        }
      }
      with_count(stripes, [&](auto count) {
        constexpr int kStripes = decltype(count)::value;
        IntVec sums[kQueries][kStripes];
        for (int n = 0; n < kQueries; ++n) {
          for (int c = 0; c < kStripes; ++c) sums[n][c] = int_broadcast(0);
        }
        for (int t = lo / kKeyTile; t * kKeyTile < hi; ++t) {
          const int8_t* codes =
              reinterpret_cast<const int8_t*>(values + t * tile_bytes) + d * kKeyTile;
          for (int pair = 0; pair < kKeyTile / kPair; ++pair) {
            WordVec v[kStripes];
            for (int c = 0; c < kStripes; ++c) v[c] = widen_bytes(codes + kStripe * c + 32 * pair);
            for (int n = 0; n < kQueries; ++n) {
              for (int c = 0; c < kStripes; ++c) {
                const int16_t* w = weights[n][c / 2] + t * kKeyTile + kPair * pair;
                sums[n][c] = dot_words(sums[n][c], v[c], load_int32(w));
              }
            }
          }
        }
        for (int n = 0; n < kQueries; ++n) {
          for (int c = 0; c < kStripes; ++c) {
            float* out = queries[n].out + d + 16 * c;
            const Vec before = mul(load(out), broadcast(shrink[n]));
            store(out, fma(to_float(sums[n][c]), broadcast(scales[n][c / 2]), before));
          }
        }
      });
    }
  }
};

}  // namespace
}  // namespace maglio

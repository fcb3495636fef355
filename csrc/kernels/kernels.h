// The arithmetic of the engine as a table of functions, one table per instruction set.
//
// All tables give the same bits. Each function is written once, over 16-lane vectors
// (simd/*.h), and compiled per instruction set; the order of every rounding is fixed by that
// source. No function's result for a row depends on which other rows it was called with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/matrix_view.h"

namespace maglio {

// Functions of n values may read and write up to the next multiple of 16: room that rows have
// (`padded`), and whose content does not matter.
constexpr int padded(int n) { return (n + kBlockValues - 1) / kBlockValues * kBlockValues; }

// Rows of input to a matrix product: the floats, and their 8-bit form. Rows are `cols` apart, a
// multiple of 32; a product reads as many values of each as its matrix has columns.
//
// Per block of 32 values: scale = max |x| / 127, code = x / scale rounded to nearest even. The
// (negated) sums of codes serve weights whose codes have an offset, and the scaled sum those that
// have a minimum.
struct Activations {
  int cols;
  float* values;       // [row][cols]
  int8_t* codes;       // [row][cols]
  float* scales;       // [row][cols / 32]
  float* scaled_sums;  // [row][cols / 32]
  int32_t* neg_sums;   // [row][cols / 32][2], per 16 values
};

enum class GateActivation : uint8_t {
  kSilu,
  kGeluTanh,
  // x * sigmoid(1.702 x) * (up + 1), with x = min(gate, 7) and up kept within 7: of gpt-oss.
  kClampedSwiglu,
};

constexpr float kNoSink = -std::numeric_limits<float>::infinity();

// One query head of one row, reading cache positions [first, last).
struct AttentionQuery {
  const float* query;  // [head_dim], scaled and rotated
  float* out;          // [head_dim]
  int first;
  int last;
  float sink = kNoSink;  // a score that takes part in the softmax and has no value
};

constexpr int kKeyTile = 16;
// Positions per step of the running softmax. Steps begin at multiples of it, whatever the query.
constexpr int kAttentionBlock = 64;

constexpr int kMaxHeadDim = 512;

// What keys and values are kept as (half_cache.h, code_cache.h).
enum class CacheType : uint8_t { kF16, kQ8_0 };

// Bytes of 16 positions of a head's keys, or of its values.
constexpr size_t cache_tile_bytes(CacheType type, int head_dim) {
  const size_t values = static_cast<size_t>(head_dim) * kKeyTile;
  if (type == CacheType::kF16) return values * 2;
  return values + static_cast<size_t>(padded(head_dim) / kBlockValues) * kKeyTile * 2;
}

// One key/value head of a layer's cache, in pages of one attention block each. Within a page, its
// keys are four tiles of 16 positions, and its values too.
struct CacheHead {
  CacheType type;
  uint8_t* const* pages;  // [position / 64]
  size_t keys;            // where they begin within every page, in bytes
  size_t values;
};

// One row of one head of a delta net.
struct DeltaRow {
  const float* query;  // [head_dim]
  const float* key;    // [head_dim]
  const float* value;  // [head_dim]
  float decay;
  float rate;
  float* out;  // [head_dim]
};

struct Kernels {
  const char* isa;

  // out = x / sqrt(mean(x^2) + eps), times `weight` unless that is null. `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);

  // x += y.
  void (*add)(float* x, const float* y, int n);

  // out = activation(gate) * up, or as the activation says.
  void (*gate)(GateActivation activation, const float* gate, const float* up, float* out, int n);

  // Makes n values, any number, their softmax.
  void (*softmax)(float* x, int n);

  // Makes n values, any number, their sigmoids.
  void (*sigmoid)(float* x, int n);

  // Makes n values, any number, cap * tanh(x / cap).
  void (*soft_cap)(float* x, int n, float cap);

  // Fills the 8-bit form of blocks [first, last), counted over all rows.
  void (*quantize)(const Activations& x, size_t first_block, size_t last_block);

  // out[r * stride + i] = sum over j of w[i][j] * x[r][j], for rows r < n_rows and the output rows
  // i of tiles [first_tile, last_tile).
  void (*matmul)(const MatrixView& w, const Activations& x, int first_row, int n_rows,
                 int first_tile, int last_tile, float* out, size_t stride);

  // Rotates the pairs (i, i + half) of a head by the angles whose cosines and sines are given,
  // then multiplies by `scale`.
  void (*rope)(float* head, const float* cosines, const float* sines, int half, float scale);

  // Writes the key, or the value, of one position; head_dim is a multiple of 16. What a position
  // leaves in memory depends on its own row only.
  void (*keep_key)(const CacheHead& cache, int head_dim, int position, const float* x);
  void (*keep_value)(const CacheHead& cache, int head_dim, int position, const float* x);

  // Softmax attention of some queries, at most kMaxAttentionQueries, that share a key/value head;
  // head_dim is a multiple of 16. With a cap, scores become cap * tanh(score / cap).
  void (*attend)(const CacheHead& cache, int head_dim, float cap, const AttentionQuery* queries,
                 int n);

  // x = x * sigmoid(z). `z` may be `x`.
  void (*scale_by_sigmoid)(float* x, const float* z, int n);

  // x = x * scale / sqrt(sum of x^2 + eps); n is a multiple of 16.
  void (*unit_norm)(float* x, int n, float eps, float scale);

  // out = sum over t of taps[t] * rows[t], for n channels, a multiple of 16, in the order of t. A
  // null row is one of zeros. Taps are [channel / 16][t][16].
  void (*convolve)(const float* const* rows, const float* taps, int n_taps, int n, float* out);

  // Columns [first, last) of a head's state [head_dim][head_dim], and of what is read from it:
  //   S = from * decay;  S += key (value - S^T key)^T * rate;  to = S;  out = S^T query.
  // `to` may be `from`; a null `from` is a state of zeros. Multiples of 16.
  void (*delta)(const DeltaRow& row, int head_dim, int first, int last, const float* from,
                float* to);
};

constexpr int kMaxAttentionQueries = 32;

// The tables this build has and this machine can run, best first.
std::vector<const Kernels*> available_kernels();
// The table named `isa`, or the best one when it is empty; null when there is none.
const Kernels* find_kernels(const char* isa);

}  // namespace maglio

// The matrix product. Included once per instruction set.
//
// Every output has its own accumulator, which walks the input in order: per block one integer dot
// product (exact), one conversion and one or two fused multiply-adds. How many rows share a pass
// over a tile changes only how often its codes are unpacked.
#pragma once

#include <utility>

#include "kernels/kernels.h"
#include "kernels/quantized.h"

namespace maglio {
namespace {

// How many rows share a pass over a tile at most, and up to how many of them a pass is compiled for
// that very number, its accumulators in registers. Quantized weights take some time to unpack, so
// that passes should be few; the accumulators of a wide one are in memory, which costs nothing
// beside eight dot products.
template <Layout kLayout>
constexpr int kMaxPassRows = is_quantized(kLayout) ? 32 : 12;
template <Layout kLayout>
constexpr int kFixedRows = is_quantized(kLayout) ? 7 : 12;

// Rows of activations a tile is applied to, from row `first` on.
struct RowsIn {
  const Activations& x;
  int first;
  int count;

  const int8_t* codes(int m) const { return x.codes + static_cast<size_t>(first + m) * x.cols; }
  size_t block(int m, int b) const {
    return static_cast<size_t>(first + m) * (x.cols / kBlockValues) + static_cast<size_t>(b);
  }
};

// What the zero of the codes takes off: 2^kShift times the sum of the activations.
template <typename F>
IntVec offset_of(int32_t neg_sum) {
  if constexpr (F::kOffset) return int_shift_left(int_broadcast(neg_sum), F::kShift);
  return int_broadcast(0);
}

// A block of 32 inputs times block `b` of row `m`, added to the row's total: the products of both
// halves, or of all, in the order of inputs, then the minima.
template <typename F>
[[gnu::always_inline]] inline Vec add_block(const Block& w, const RowsIn& in, int m, int b,
                                            Vec total) {
  const int8_t* a = in.codes(m) + kBlockValues * b;
  const size_t at = in.block(m, b);
  const int32_t* neg_sums = in.x.neg_sums + 2 * at;
  const Vec scale = broadcast(in.x.scales[at]);
  if constexpr (F::kScaleCount == 2) {
    const IntVec first = dot<F::kCodeBits, 4>(offset_of<F>(neg_sums[0]), w.codes, a);
    const IntVec second = dot<F::kCodeBits, 4>(offset_of<F>(neg_sums[1]), w.codes + 4, a + 16);
    total = fma(to_float(first), mul(w.scales[0], scale), total);
    total = fma(to_float(second), mul(w.scales[1], scale), total);
  } else {
    const int32_t neg_sum = F::kOffset ? neg_sums[0] + neg_sums[1] : 0;
    const IntVec all = dot<F::kCodeBits, kGroups>(offset_of<F>(neg_sum), w.codes, a);
    total = fma(to_float(all), mul(w.scales[0], scale), total);
  }
  if constexpr (F::kMinCount == 2) {
    for (int half = 0; half < 2; ++half) {
      const float sum = in.x.scales[at] * static_cast<float>(neg_sums[half]);
      total = fma(w.mins[half], broadcast(sum), total);
    }
  } else if constexpr (F::kMinCount == 1) {
    total = fnma(w.mins[0], broadcast(in.x.scaled_sums[at]), total);
  }
  return total;
}

// One tile times kRows rows, or in.count where that is 0. On one row the loads of weights are the
// cost; on more, the products.
template <typename F, int kRows>
void quantized_tile(const uint8_t* unit, const MatrixView& matrix, const RowsIn& in, Vec* total) {
  const int rows = kRows == 0 ? in.count : kRows;
  // Bytes. A unit of several blocks is not read from front to back, so all of it has to be there.
  constexpr int kAhead = F::kBlocks == 1 ? 4 * F::kUnitBytes : F::kUnitBytes;
  constexpr int kBytes = F::kUnitBytes / F::kBlocks;
  const int blocks = matrix.cols / kBlockValues;
  const ByteVec table = load_table(matrix.table);
  for (int m = 0; m < rows; ++m) total[m] = zero();
  for (int b = 0; b < blocks; unit += F::kUnitBytes) {
    typename F::Head head;
    F::open(unit, head);
    for (int j = 0; j < F::kBlocks; ++j, ++b) {
      for (int at = 0; at < kBytes; at += 64) {
        __builtin_prefetch(unit + kBytes * j + kAhead + at);
      }
      Block block;
      F::unpack(unit, head, j, table, block);
      for (int m = 0; m < rows; ++m) total[m] = add_block<F>(block, in, m, b, total[m]);
    }
  }
}

// Float weights: the activations stay floats too.
template <Layout kLayout>
struct Floats {
  static constexpr int kValueBytes = kLayout == Layout::kFloat32 ? 4 : 2;

  static Vec load_weights(const uint8_t* w) {
    if constexpr (kLayout == Layout::kFloat32) return load(reinterpret_cast<const float*>(w));
    if constexpr (kLayout == Layout::kFloat16) {
      return load_half(reinterpret_cast<const uint16_t*>(w));
    }
    return load_bfloat(reinterpret_cast<const uint16_t*>(w));
  }
};

template <typename F, int kRows>
void float_tile(const uint8_t* w, int cols, const RowsIn& in, Vec* total) {
  const float* x[kRows];
  for (int m = 0; m < kRows; ++m) {
    total[m] = zero();
    x[m] = in.x.values + static_cast<size_t>(in.first + m) * in.x.cols;
  }
  for (int j = 0; j < cols; ++j, w += kTileRows * F::kValueBytes) {
    __builtin_prefetch(w + 1024);
    const Vec weights = F::load_weights(w);
    for (int m = 0; m < kRows; ++m) total[m] = fma(weights, broadcast(x[m][j]), total[m]);
  }
}

// The struct that knows a layout.
template <Layout kLayout>
auto format_of() {
  if constexpr (kLayout == Layout::kQ4_0) return FormatQ4_0();
  if constexpr (kLayout == Layout::kQ4_1) return FormatQ4_1();
  if constexpr (kLayout == Layout::kQ5_0) return FormatQ5_0();
  if constexpr (kLayout == Layout::kQ5_1) return FormatQ5_1();
  if constexpr (kLayout == Layout::kQ8_0) return FormatQ8_0();
  if constexpr (kLayout == Layout::kQ2_K) return FormatQ2_K();
  if constexpr (kLayout == Layout::kQ3_K) return FormatQ3_K();
  if constexpr (kLayout == Layout::kQ4_K) return FormatQ4_K();
  if constexpr (kLayout == Layout::kQ5_K) return FormatQ5_K();
  if constexpr (kLayout == Layout::kQ6_K) return FormatQ6_K();
  if constexpr (kLayout == Layout::kIQ4_NL) return FormatIQ4_NL();
  if constexpr (kLayout == Layout::kIQ4_XS) return FormatIQ4_XS();
  if constexpr (kLayout == Layout::kMXFP4) return FormatMXFP4();
  if constexpr (kLayout == Layout::kGrid) return FormatGrid();
}

template <Layout kLayout, int kRows>
void tile_rows(const uint8_t* w, const MatrixView& matrix, const RowsIn& in, Vec* total) {
  if constexpr (is_quantized(kLayout)) {
    quantized_tile<decltype(format_of<kLayout>()), kRows>(w, matrix, in, total);
  } else {
    float_tile<Floats<kLayout>, kRows>(w, matrix.cols, in, total);
  }
}

inline void store_outputs(float* out, Vec v, int lanes) {
  if (lanes >= kTileRows) return store(out, v);
  float all[kTileRows];
  store(all, v);
  for (int i = 0; i < lanes; ++i) out[i] = all[i];
}

template <Layout kLayout, int kRows>
void run_rows(const MatrixView& w, int tile, const RowsIn& in, float* out, size_t stride) {
  Vec total[kRows == 0 ? kMaxPassRows<kLayout> : kRows];
  tile_rows<kLayout, kRows>(w.tiles + w.tile_bytes * static_cast<size_t>(tile), w, in, total);
  const int lanes = w.rows - tile * kTileRows;
  for (int m = 0; m < in.count; ++m) store_outputs(out + m * stride, total[m], lanes);
}

using RunRows = void (*)(const MatrixView& w, int tile, const RowsIn& in, float* out,
                         size_t stride);

template <Layout kLayout, size_t... kIndex>
RunRows run_rows_of(int rows, std::index_sequence<kIndex...>) {
  static constexpr RunRows kFixed[] = {run_rows<kLayout, static_cast<int>(kIndex) + 1>...};
  if constexpr (kFixedRows<kLayout> < kMaxPassRows<kLayout>) {
    if (rows > kFixedRows<kLayout>) return run_rows<kLayout, 0>;
  }
  return kFixed[rows - 1];
}

// In as few passes as possible, of as equal widths as possible: each unpacks the tile once.
template <Layout kLayout>
void matmul_layout(const MatrixView& w, const Activations& x, int first_row, int n_rows,
                   int first_tile, int last_tile, float* out, size_t stride) {
  for (int tile = first_tile; tile < last_tile; ++tile) {
    float* tile_out = out + tile * kTileRows;
    int passes = (n_rows + kMaxPassRows<kLayout> - 1) / kMaxPassRows<kLayout>;
    for (int r = 0; r < n_rows; --passes) {
      const int n = (n_rows - r + passes - 1) / passes;
      const RunRows run = run_rows_of<kLayout>(n, std::make_index_sequence<kFixedRows<kLayout>>{});
      run(w, tile, {x, first_row + r, n}, tile_out + r * stride, stride);
      r += n;
    }
  }
}

void matmul(const MatrixView& w, const Activations& x, int first_row, int n_rows, int first_tile,
            int last_tile, float* out, size_t stride) {
  const auto run = [&](auto f) { f(w, x, first_row, n_rows, first_tile, last_tile, out, stride); };
  switch (w.layout) {
    case Layout::kQ4_0:
      return run(matmul_layout<Layout::kQ4_0>);
    case Layout::kQ4_1:
      return run(matmul_layout<Layout::kQ4_1>);
    case Layout::kQ5_0:
      return run(matmul_layout<Layout::kQ5_0>);
    case Layout::kQ5_1:
      return run(matmul_layout<Layout::kQ5_1>);
    case Layout::kQ8_0:
      return run(matmul_layout<Layout::kQ8_0>);
    case Layout::kQ2_K:
      return run(matmul_layout<Layout::kQ2_K>);
    case Layout::kQ3_K:
      return run(matmul_layout<Layout::kQ3_K>);
    case Layout::kQ4_K:
      return run(matmul_layout<Layout::kQ4_K>);
    case Layout::kQ5_K:
      return run(matmul_layout<Layout::kQ5_K>);
    case Layout::kQ6_K:
      return run(matmul_layout<Layout::kQ6_K>);
    case Layout::kIQ4_NL:
      return run(matmul_layout<Layout::kIQ4_NL>);
    case Layout::kIQ4_XS:
      return run(matmul_layout<Layout::kIQ4_XS>);
    case Layout::kMXFP4:
      return run(matmul_layout<Layout::kMXFP4>);
    case Layout::kGrid:
      return run(matmul_layout<Layout::kGrid>);
    case Layout::kFloat16:
      return run(matmul_layout<Layout::kFloat16>);
    case Layout::kBFloat16:
      return run(matmul_layout<Layout::kBFloat16>);
    case Layout::kFloat32:
      return run(matmul_layout<Layout::kFloat32>);
  }
}

}  // namespace
}  // namespace maglio

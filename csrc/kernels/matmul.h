// The matrix product. Included once per instruction set.
//
// Every output has its own accumulator, which walks the input in order: per block one integer dot
// product (exact), one conversion and one or two fused multiply-adds. How many rows share a pass
// over a tile changes only how often its codes are unpacked.
#pragma once

#include <utility>

#include "kernels/kernels.h"

namespace maglio {
namespace {

constexpr int kGroupsPerBlock = 8;
constexpr int kScaleBytes = 2 * kTileRows;
constexpr int kMaxPassRows = 12;  // as many accumulators as AVX-512 has registers for

// Rows of activations a tile is applied to, from row `first` on.
struct RowsIn {
  const Activations& x;
  int first;

  const int8_t* codes(int m) const { return x.codes + static_cast<size_t>(first + m) * x.cols; }
  size_t block(int m, int b) const {
    return static_cast<size_t>(first + m) * (x.cols / kBlockValues) + static_cast<size_t>(b);
  }
};

inline int32_t load_int32(const int8_t* p) {
  int32_t x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

// How a quantized layout is unpacked and what its codes mean.
template <int kBits, bool kHasMin, int kScales, int kZeroShift>
struct Quantized {
  static constexpr int kCodeBytes = kBits == 8 ? 512 : kBits == 5 ? 320 : 256;
  static constexpr int kBlockBytes = kCodeBytes + kScaleBytes * (kHasMin ? 2 : kScales);
  static constexpr bool kMin = kHasMin;
  static constexpr int kScaleGroups = kScales;
  static constexpr bool kFull = kBits == 8 && kZeroShift == 7;
  // The offset that is left after what dot_full took off by itself.
  static constexpr bool kOffset = kZeroShift >= 0 && !(kFull && kFullBias == 128);
  static constexpr int kShift = kZeroShift;

  static void unpack(const uint8_t* w, ByteVec* q) {
    if constexpr (kBits == 8) {
      for (int g = 0; g < kGroupsPerBlock; ++g) q[g] = load_bytes(w + 64 * g);
      return;
    }
    for (int p = 0; p < kGroupsPerBlock / 2; ++p) {
      const ByteVec packed = load_bytes(w + 64 * p);
      q[2 * p] = low_nibbles(packed);
      q[2 * p + 1] = high_nibbles(packed);
    }
    if constexpr (kBits == 5) {
      for (int g = 0; g < kGroupsPerBlock; ++g) q[g] = add_fifth_bit(q[g], w + 256 + 8 * g);
    }
  }

  static IntVec dot(IntVec acc, ByteVec codes, int32_t a) {
    if constexpr (kFull) return dot_full(acc, codes, a);
    return dot_small(acc, codes, a);
  }

  static IntVec start(int32_t neg_sum) {
    if constexpr (kOffset) return int_shift_left(int_broadcast(neg_sum), kShift);
    return int_broadcast(0);
  }
};

// One tile times kRows rows. On one row the loads of weights are the cost; on more, the products.
template <typename Q, int kRows>
void quantized_tile(const uint8_t* w, int blocks, const RowsIn& in, Vec* total) {
  for (int m = 0; m < kRows; ++m) total[m] = zero();
  for (int b = 0; b < blocks; ++b, w += Q::kBlockBytes) {
    for (int line = 0; line < Q::kBlockBytes; line += 64) {
      __builtin_prefetch(w + 4 * Q::kBlockBytes + line);
    }
    ByteVec q[kGroupsPerBlock];
    Q::unpack(w, q);
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(w + Q::kCodeBytes);
    const Vec scale0 = load_half(scales);
    const Vec scale1 = Q::kScaleGroups == 2 ? load_half(scales + kTileRows) : scale0;
    const Vec min = Q::kMin ? load_half(scales + kTileRows) : scale0;
    for (int m = 0; m < kRows; ++m) {
      const int8_t* a = in.codes(m) + kBlockValues * b;
      const size_t at = in.block(m, b);
      const int32_t* neg_sums = in.x.neg_sums + 2 * at;
      const Vec scale_in = broadcast(in.x.scales[at]);
      if constexpr (Q::kScaleGroups == 2) {
        IntVec first = Q::start(neg_sums[0]), second = Q::start(neg_sums[1]);
        for (int g = 0; g < 4; ++g) {
          first = Q::dot(first, q[g], load_int32(a + 4 * g));
          second = Q::dot(second, q[g + 4], load_int32(a + 4 * g + 16));
        }
        total[m] = fma(to_float(first), mul(scale0, scale_in), total[m]);
        total[m] = fma(to_float(second), mul(scale1, scale_in), total[m]);
      } else {
        IntVec dot = Q::start(Q::kOffset ? neg_sums[0] + neg_sums[1] : 0);
        for (int g = 0; g < kGroupsPerBlock; ++g) dot = Q::dot(dot, q[g], load_int32(a + 4 * g));
        total[m] = fma(to_float(dot), mul(scale0, scale_in), total[m]);
        if constexpr (Q::kMin) total[m] = fnma(min, broadcast(in.x.scaled_sums[at]), total[m]);
      }
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

template <Layout kLayout, int kRows>
void tile_rows(const uint8_t* w, const MatrixView& matrix, const RowsIn& in, Vec* total) {
  if constexpr (kLayout == Layout::kInt4) {
    quantized_tile<Quantized<4, false, 1, 3>, kRows>(w, matrix.cols / kBlockValues, in, total);
  } else if constexpr (kLayout == Layout::kInt4Min) {
    quantized_tile<Quantized<4, true, 1, -1>, kRows>(w, matrix.cols / kBlockValues, in, total);
  } else if constexpr (kLayout == Layout::kInt5) {
    quantized_tile<Quantized<5, false, 1, 4>, kRows>(w, matrix.cols / kBlockValues, in, total);
  } else if constexpr (kLayout == Layout::kInt5Min) {
    quantized_tile<Quantized<5, true, 1, -1>, kRows>(w, matrix.cols / kBlockValues, in, total);
  } else if constexpr (kLayout == Layout::kInt8) {
    quantized_tile<Quantized<8, false, 1, 7>, kRows>(w, matrix.cols / kBlockValues, in, total);
  } else if constexpr (kLayout == Layout::kInt8Half) {
    quantized_tile<Quantized<8, false, 2, 5>, kRows>(w, matrix.cols / kBlockValues, in, total);
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
  Vec total[kRows];
  tile_rows<kLayout, kRows>(w.tiles + w.tile_bytes * static_cast<size_t>(tile), w, in, total);
  const int lanes = w.rows - tile * kTileRows;
  for (int m = 0; m < kRows; ++m) store_outputs(out + m * stride, total[m], lanes);
}

using RunRows = void (*)(const MatrixView& w, int tile, const RowsIn& in, float* out,
                         size_t stride);

template <Layout kLayout, size_t... kIndex>
RunRows run_rows_of(int rows, std::index_sequence<kIndex...>) {
  static constexpr RunRows kAll[] = {run_rows<kLayout, static_cast<int>(kIndex) + 1>...};
  return kAll[rows - 1];
}

// In as few passes as possible, of as equal widths as possible: each unpacks the tile once.
template <Layout kLayout>
void matmul_layout(const MatrixView& w, const Activations& x, int first_row, int n_rows,
                   int first_tile, int last_tile, float* out, size_t stride) {
  for (int tile = first_tile; tile < last_tile; ++tile) {
    float* tile_out = out + tile * kTileRows;
    int passes = (n_rows + kMaxPassRows - 1) / kMaxPassRows;
    for (int r = 0; r < n_rows; --passes) {
      const int n = (n_rows - r + passes - 1) / passes;
      const RunRows run = run_rows_of<kLayout>(n, std::make_index_sequence<kMaxPassRows>{});
      run(w, tile, {x, first_row + r}, tile_out + r * stride, stride);
      r += n;
    }
  }
}

void matmul(const MatrixView& w, const Activations& x, int first_row, int n_rows, int first_tile,
            int last_tile, float* out, size_t stride) {
  const auto run = [&](auto f) { f(w, x, first_row, n_rows, first_tile, last_tile, out, stride); };
  switch (w.layout) {
    case Layout::kInt4:
      return run(matmul_layout<Layout::kInt4>);
    case Layout::kInt4Min:
      return run(matmul_layout<Layout::kInt4Min>);
    case Layout::kInt5:
      return run(matmul_layout<Layout::kInt5>);
    case Layout::kInt5Min:
      return run(matmul_layout<Layout::kInt5Min>);
    case Layout::kInt8:
      return run(matmul_layout<Layout::kInt8>);
    case Layout::kInt8Half:
      return run(matmul_layout<Layout::kInt8Half>);
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

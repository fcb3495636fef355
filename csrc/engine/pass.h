// One forward: what all members of the team share while they run it, and the steps that layers are
// made of.
//
// Rows of all segments lie one after the other. Every step computes each row by itself, and each
// output by one member from start to end; a step that others read ends in a barrier.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "engine/cache.h"
#include "engine/model.h"
#include "engine/rope.h"
#include "engine/routing.h"
#include "engine/thread_pool.h"

namespace maglio {

// Storage behind an Activations view.
class ActivationBuffer {
 public:
  void fit(int rows, int cols);
  // Of as many rows and columns as fit() was told, or fewer.
  Activations view(int cols);

 private:
  std::vector<float> values_, scales_, scaled_sums_;
  std::vector<int8_t> codes_;
  std::vector<int32_t> neg_sums_;
};

// Matrix products of a layer, each with its own counter of tiles taken.
enum LayerPhase {
  kMixerInput,
  kOutput,
  kGateUp,
  kDown,
  kRouter,
  kExpertsGateUp,
  kExpertsDown,
  kInputGate,
  kInputProjection,
  kLayerPhases
};
// Those outside layers.
enum ModelPhase { kLayerEmbeddings, kHead, kModelPhases };

// A matrix product to be shared by the team: rows [first_row, first_row + rows) of x. Those of
// `out` are `stride` apart.
struct Product {
  MatrixView w;
  Activations x;
  float* out;
  int rows;
  int stride;
  int first_row = 0;
};

// What a sub-layer of experts needs.
struct ExpertsScratch {
  Routing routing;
  std::vector<Product> gate_up, down;
  ActivationBuffer router_in;                 // [row][n_embd], where the router has a norm
  ActivationBuffer in;                        // [place][n_embd]
  std::vector<float> outputs;                 // [place][n_embd]
  std::vector<float> shared_gate, shared_up;  // [row][n_shared_ff]
  ActivationBuffer shared_in;
  std::vector<float> shared_out;      // [row][n_embd]
  std::vector<float> shared_weights;  // [row], before the sigmoid
};

// What recurrent layers compute. Rows that are computed again for the sake of a state are rows
// here, in front of those that come after them.
struct RecurrentBuffers {
  std::vector<float> inputs;         // [batch row][input_width of the layer]
  std::vector<float> gate;           // [batch row][value_cols], or [batch row][3 * channels]
  std::vector<float> mixed;          // [row][channels]
  std::vector<float> decays, rates;  // [row][n_value_head]
  std::vector<float> recalled;       // [row][value_cols]
};

// Memory that one forward leaves to the next.
struct Scratch {
  explicit Scratch(const Model& model);
  // Makes room for a forward of `rows` rows, with those computed again `all_rows`, that ends before
  // position `positions`.
  void fit(const Model& model, int rows, int all_rows, int positions);
  int model_phase(ModelPhase phase) const {
    return static_cast<int>(next_tile.size()) - kModelPhases + phase;
  }

  // Rows of n_embd and n_ff values have room for padded(n) each.
  std::vector<float> residual;           // [row][n_embd]
  std::vector<float> query, key, value;  // [row][heads * head_width of the layer], gates too
  std::vector<float> attended;           // as query, in layers whose heads are gathered
  std::vector<float> gate, up;           // [row or place][n_ff of the layer]
  std::vector<float> projected;          // [row][n_embd]: what a sub-layer adds to the residual
  std::vector<float> dense;              // likewise: one of two beside each other
  std::vector<float> layer_embeddings, layer_projected;  // [row][layer][n_embd_per_layer]
  ActivationBuffer embd_in, attention_in, ffn_in;
  ExpertsScratch experts;
  RecurrentBuffers recurrent;
  std::vector<RopeTable> ropes;
  std::vector<std::atomic<int>> next_tile;  // [layer * kLayerPhases + phase], [model_phase]

 private:
  void fit_part(const AttentionSpec& spec, int rows);
  void fit_part(const DeltaNetSpec& spec, int rows);
  void fit_part(const ShortConvSpec& spec, int rows);
  void fit_part(const GatedSpec& spec, int rows);
  void fit_part(const ExpertsSpec& spec, int rows);
  void fit_part(const ParallelSpec& spec, int rows);

  int n_embd_;
  int all_rows_ = 0;  // of the forward that it was fitted for
};

struct Row {
  int32_t token;
  int position;
  Cache* cache;
};

// The rows of one cache.
struct RowRange {
  Cache* cache;
  int first;
  int n;
  int first_of_all;  // counting rows that are computed again

  const Advance& advance() const { return cache->states().advance(); }
};

struct Pass {
  const Model& model;
  const RecurrentLayout& recurrent;
  const Kernels& kernels;
  ThreadPool& pool;
  Scratch& scratch;
  std::vector<Row> rows;
  std::vector<RowRange> ranges;
  std::vector<int> wanted;  // rows whose logits are
  float* logits;            // [wanted][n_vocab]

  int n() const { return static_cast<int>(rows.size()); }
  // With those that are computed again.
  int n_all() const {
    const RowRange& last = ranges.back();
    return last.first_of_all + last.advance().rows(last.n);
  }
  int team() const { return pool.team(); }
  // From one row of n_embd values to the next.
  int width() const { return padded(model.spec.n_embd); }
  float* residual(int row) const {
    return scratch.residual.data() + static_cast<size_t>(row) * width();
  }

  // Runs work(row) for each row, shared by the team.
  template <typename Work>
  void each_row(int member, int n_rows, Work work) {
    const Share mine = share_of(n_rows, member, team());
    for (int row = mine.begin; row < mine.end; ++row) work(row);
    pool.barrier();
  }

  // Runs work(range, i) for the i-th row of each range, shared by the team.
  template <typename Work>
  void each_new_row(int member, Work work) {
    const Share mine = share_of(n(), member, team());
    for (const RowRange& range : ranges) {
      const int begin = std::max(mine.begin - range.first, 0);
      const int end = std::min(mine.end - range.first, range.n);
      for (int i = begin; i < end; ++i) work(range, i);
    }
    pool.barrier();
  }

  // What a recurrent layer was fed at a position of a range's cache; null before the first one.
  const float* recurrent_input(const RowRange& range, int layer, int position) const;
  // Puts into the caches what they will need of that. Others may read it meanwhile.
  void keep_inputs(int member, int layer) const;

  // Row `to` of embd_in becomes the residual of row `from`, normed where there is a weight, in 8
  // bits too if `quantize`.
  void norm_input(int from, int to, const Vector& weight, bool quantize);
  // Multiplies a row of the residual stream.
  void scale(int row, float factor) const;
  // Adds a bias to what a sub-layer projected of a row, and norms it, if there are any.
  void norm_output(float* y, const Vector& bias, const Vector& norm) const;
  // Adds what a sub-layer projected, with its bias, norm and scale if it has them, to the residual
  // stream.
  void join(int row, const Vector& bias, const Vector& post_norm);
  void project(int phase, const Product* products, size_t count);
  void project(int phase, std::initializer_list<Product> products) {
    project(phase, products.begin(), products.size());
  }
};

}  // namespace maglio

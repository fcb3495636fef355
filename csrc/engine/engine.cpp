#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>

namespace maglio {
namespace {

// Storage behind an Activations view.
class ActivationBuffer {
 public:
  Activations view(int rows, int cols) {
    const size_t n = static_cast<size_t>(rows) * static_cast<size_t>(cols);
    if (values_.size() < n) {
      values_.resize(n);
      codes_.resize(n);
      scales_.resize(n / kBlockValues);
      scaled_sums_.resize(n / kBlockValues);
      neg_sums_.resize(n / kBlockValues * 2);
    }
    return {cols,           values_.data(),      codes_.data(),
            scales_.data(), scaled_sums_.data(), neg_sums_.data()};
  }

 private:
  std::vector<float> values_, scales_, scaled_sums_;
  std::vector<int8_t> codes_;
  std::vector<int32_t> neg_sums_;
};

// Cosines and sines of every position so far, grown on demand.
class RopeTable {
 public:
  void grow(const RopeSpec& spec, int positions) {
    const size_t half = spec.inverse_frequencies.size();
    half_ = static_cast<int>(half);
    const size_t from = cosines_.size() / half;
    if (static_cast<size_t>(positions) <= from) return;
    cosines_.resize(half * positions);
    sines_.resize(half * positions);
    for (size_t p = from; p < static_cast<size_t>(positions); ++p) {
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * spec.inverse_frequencies[i];
        cosines_[p * half + i] = static_cast<float>(std::cos(angle));
        sines_[p * half + i] = static_cast<float>(std::sin(angle));
      }
    }
  }
  const float* cosines(int position) const { return cosines_.data() + offset(position); }
  const float* sines(int position) const { return sines_.data() + offset(position); }

 private:
  size_t offset(int position) const { return static_cast<size_t>(position) * half_; }
  int half_ = 0;
  std::vector<float> cosines_, sines_;
};

// Positions by which tables grow, so that a decoding loop rarely does.
constexpr int kRopeStep = 1024;

// Into how many runs a product is cut per member: enough to even out, few enough to keep long
// sequential reads.
constexpr int kRunsPerMember = 8;

}  // namespace

struct Engine::Scratch {
  std::vector<float> residual;           // [row][n_embd]
  std::vector<float> query, key, value;  // [row][heads * head_dim]
  std::vector<float> gate, up;           // [row][n_ff]
  std::vector<float> projected;          // [row][n_embd]
  ActivationBuffer embd_in, attention_in, ffn_in;
  std::vector<RopeTable> ropes;
  std::vector<std::atomic<int>> next_tile;  // [layer * kLayerPhases + phase], then the head's
};

namespace {

// A matrix product to be shared by the team: `rows` rows of x from `first_row` on.
struct Product {
  const Matrix& w;
  const Activations& x;
  float* out;
  int first_row;
  int rows;
};

// Matrix products of a layer, each a phase with its own counter of tiles taken.
enum LayerPhase { kQueryKeyValue, kOutput, kGateUp, kDown, kLayerPhases };

}  // namespace

// One forward: what all members of the team share while they run it.
struct Engine::Pass {
  const Model& model;
  const ModelSpec& spec;
  const Kernels& kernels;
  ThreadPool& pool;
  Scratch& scratch;
  KvCache& cache;
  const int32_t* tokens;
  int n;
  int n_logits;
  float* logits;
  Activations embd_in, attention_in, ffn_in;
  bool quantize_head;

  int team() const { return pool.size(); }
  int q_dim() const { return spec.n_head * spec.head_dim; }
  int kv_dim() const { return spec.n_kv_head * spec.head_dim; }
  float* residual(int row) const {
    return scratch.residual.data() + static_cast<size_t>(row) * spec.n_embd;
  }

  void run(int member);
  void embed(int row);
  void norm_input(int row, const std::vector<float>& weight, bool quantize);
  void join(int row, const std::vector<float>& post_norm);
  void project(int phase, std::initializer_list<Product> products);
  void place_heads(int member, int layer_index);
  void place_head(const Layer& layer, int layer_index, int row, int head);
  void attend(int member, int layer_index);
  void gate_ffn(int member, bool quantize);
  void compute_logits(int member);

  // Every phase ends in a barrier: the next one reads what other members wrote.
  template <typename Work>
  void rows(int member, Work work) {
    const Share mine = share_of(n, member, team());
    for (int row = mine.begin; row < mine.end; ++row) work(row);
    pool.barrier();
  }
};

namespace {

bool any_quantized(std::initializer_list<const Matrix*> matrices) {
  return std::any_of(matrices.begin(), matrices.end(),
                     [](const Matrix* m) { return is_quantized(m->view().layout); });
}

}  // namespace

void Engine::Pass::embed(int row) {
  float* x = residual(row);
  model.embedding.unpack_row(tokens[row], x);
  if (spec.embedding_scale == 1.0f) return;
  for (int i = 0; i < spec.n_embd; ++i) x[i] *= spec.embedding_scale;
}

void Engine::Pass::norm_input(int row, const std::vector<float>& weight, bool quantize) {
  kernels.rms_norm(residual(row), weight.data(), spec.n_embd, spec.norm_eps,
                   embd_in.values + static_cast<size_t>(row) * spec.n_embd);
  if (!quantize) return;
  const size_t blocks = static_cast<size_t>(spec.n_embd) / kBlockValues;
  kernels.quantize(embd_in, blocks * row, blocks * (row + 1));
}

// Adds what a sub-layer projected to the residual stream.
void Engine::Pass::join(int row, const std::vector<float>& post_norm) {
  float* y = scratch.projected.data() + static_cast<size_t>(row) * spec.n_embd;
  if (!post_norm.empty()) kernels.rms_norm(y, post_norm.data(), spec.n_embd, spec.norm_eps, y);
  kernels.add(residual(row), y, spec.n_embd);
}

// Members take runs of tiles as they come free, since cores are not always equally fast or idle.
// Who computes a tile does not matter to its bits.
void Engine::Pass::project(int phase, std::initializer_list<Product> products) {
  std::atomic<int>& next = scratch.next_tile[static_cast<size_t>(phase)];
  int total = 0;
  for (const Product& product : products) total += product.w.tiles();
  const int run = std::max(1, total / (team() * kRunsPerMember));
  for (int begin = next.fetch_add(run); begin < total; begin = next.fetch_add(run)) {
    int first = begin, last = std::min(begin + run, total);
    for (const Product& product : products) {
      const int tiles = product.w.tiles();
      if (first < std::min(last, tiles)) {
        kernels.matmul(product.w.view(), product.x, product.first_row, product.rows, first,
                       std::min(last, tiles), product.out, static_cast<size_t>(product.w.rows()));
      }
      first = std::max(0, first - tiles);
      last = std::max(0, last - tiles);
    }
  }
  pool.barrier();
}

void Engine::Pass::place_head(const Layer& layer, int layer_index, int row, int head) {
  const int position = cache.length() + row;
  const int half = spec.head_dim / 2;
  const RopeTable& rope = scratch.ropes[static_cast<size_t>(layer.rope)];
  const auto prepare = [&](float* x, const float* bias, const std::vector<float>& norm) {
    if (bias) kernels.add(x, bias, spec.head_dim);
    if (!norm.empty()) kernels.rms_norm(x, norm.data(), spec.head_dim, spec.norm_eps, x);
  };
  const auto bias_of = [&](const std::vector<float>& bias, int index) {
    return bias.empty() ? nullptr : bias.data() + static_cast<size_t>(index) * spec.head_dim;
  };
  if (head < spec.n_head) {
    float* q = scratch.query.data() + static_cast<size_t>(row) * q_dim() + head * spec.head_dim;
    prepare(q, bias_of(layer.query_bias, head), layer.query_norm);
    kernels.rope(q, rope.cosines(position), rope.sines(position), half, spec.attention_scale);
    return;
  }
  const int kv = head - spec.n_head;
  const size_t at = static_cast<size_t>(row) * kv_dim() + static_cast<size_t>(kv) * spec.head_dim;
  uint16_t half_row[kMaxHeadDim];
  float* k = scratch.key.data() + at;
  prepare(k, bias_of(layer.key_bias, kv), layer.key_norm);
  kernels.rope(k, rope.cosines(position), rope.sines(position), half, 1.0f);
  kernels.to_half(k, half_row, spec.head_dim);
  cache.put_key(layer_index, kv, position, half_row);
  float* v = scratch.value.data() + at;
  if (const float* bias = bias_of(layer.value_bias, kv)) kernels.add(v, bias, spec.head_dim);
  kernels.to_half(v, half_row, spec.head_dim);
  cache.put_value(layer_index, kv, position, half_row);
}

void Engine::Pass::place_heads(int member, int layer_index) {
  const Layer& layer = model.layers[static_cast<size_t>(layer_index)];
  const int heads = spec.n_head + spec.n_kv_head;
  const Share mine = share_of(n * heads, member, team());
  for (int i = mine.begin; i < mine.end; ++i) {
    place_head(layer, layer_index, i / heads, i % heads);
  }
  pool.barrier();
}

void Engine::Pass::attend(int member, int layer_index) {
  const Layer& layer = model.layers[static_cast<size_t>(layer_index)];
  const int group = spec.n_head / spec.n_kv_head;
  // Queries in the order (kv head, row, head of the group), so that neighbours share a pass.
  const int per_kv = n * group;
  const Share mine = share_of(spec.n_kv_head * per_kv, member, team());
  AttentionQuery queries[kMaxAttentionQueries];
  for (int i = mine.begin; i < mine.end;) {
    const int kv = i / per_kv;
    int count = 0;
    for (; count < kMaxAttentionQueries && i < mine.end && i / per_kv == kv; ++count, ++i) {
      const int row = i % per_kv / group;
      const size_t at = static_cast<size_t>(row) * q_dim() +
                        static_cast<size_t>(kv * group + i % group) * spec.head_dim;
      const int last = cache.length() + row + 1;
      const int first = layer.window > 0 ? std::max(0, last - layer.window) : 0;
      queries[count] = {scratch.query.data() + at, attention_in.values + at, first, last};
    }
    kernels.attend(cache.head(layer_index, kv), spec.head_dim, queries, count);
  }
  pool.barrier();
  if (!is_quantized(layer.output.view().layout)) return;
  const Share blocks = share_of(n * q_dim() / kBlockValues, member, team());
  kernels.quantize(attention_in, static_cast<size_t>(blocks.begin),
                   static_cast<size_t>(blocks.end));
  pool.barrier();
}

void Engine::Pass::gate_ffn(int member, bool quantize) {
  const Share blocks = share_of(n * spec.n_ff / kBlockValues, member, team());
  const size_t at = static_cast<size_t>(blocks.begin) * kBlockValues;
  kernels.gate(spec.activation, scratch.gate.data() + at, scratch.up.data() + at,
               ffn_in.values + at, (blocks.end - blocks.begin) * kBlockValues);
  if (quantize) {
    kernels.quantize(ffn_in, static_cast<size_t>(blocks.begin), static_cast<size_t>(blocks.end));
  }
  pool.barrier();
}

void Engine::Pass::compute_logits(int member) {
  const Matrix& head = model.output_head();
  const int first = n - n_logits;
  const Share mine = share_of(n_logits, member, team());
  for (int row = first + mine.begin; row < first + mine.end; ++row) {
    norm_input(row, model.output_norm, quantize_head);
  }
  pool.barrier();
  project(spec.n_layer * kLayerPhases, {{head, embd_in, logits, first, n_logits}});
}

void Engine::Pass::run(int member) {
  rows(member, [&](int row) {
    embed(row);
    const Layer& first = model.layers.front();
    norm_input(row, first.attention_norm, any_quantized({&first.query, &first.key, &first.value}));
  });
  for (int i = 0; i < spec.n_layer; ++i) {
    const Layer& layer = model.layers[static_cast<size_t>(i)];
    const int phase = i * kLayerPhases;
    project(phase + kQueryKeyValue, {{layer.query, embd_in, scratch.query.data(), 0, n},
                                     {layer.key, embd_in, scratch.key.data(), 0, n},
                                     {layer.value, embd_in, scratch.value.data(), 0, n}});
    place_heads(member, i);
    attend(member, i);
    project(phase + kOutput, {{layer.output, attention_in, scratch.projected.data(), 0, n}});
    rows(member, [&](int row) {
      join(row, layer.attention_post_norm);
      norm_input(row, layer.ffn_norm, any_quantized({&layer.gate, &layer.up}));
    });
    project(phase + kGateUp, {{layer.gate, embd_in, scratch.gate.data(), 0, n},
                              {layer.up, embd_in, scratch.up.data(), 0, n}});
    gate_ffn(member, any_quantized({&layer.down}));
    project(phase + kDown, {{layer.down, ffn_in, scratch.projected.data(), 0, n}});
    const Layer* next = i + 1 < spec.n_layer ? &layer + 1 : nullptr;
    rows(member, [&](int row) {
      join(row, layer.ffn_post_norm);
      if (next) {
        norm_input(row, next->attention_norm,
                   any_quantized({&next->query, &next->key, &next->value}));
      }
    });
  }
  if (n_logits > 0) compute_logits(member);
}

Engine::Engine(std::shared_ptr<const Model> model, const Kernels& kernels, int threads)
    : model_(std::move(model)),
      kernels_(kernels),
      pool_(threads),
      scratch_(std::make_unique<Scratch>()) {
  scratch_->ropes.resize(model_->ropes.size());
  scratch_->next_tile =
      std::vector<std::atomic<int>>(static_cast<size_t>(model_->spec.n_layer) * kLayerPhases + 1);
}

Engine::~Engine() = default;

void Engine::forward(KvCache& cache, const int32_t* tokens, int n, int n_logits, float* logits) {
  const ModelSpec& spec = model_->spec;
  if (n < 1 || n > kMaxRows || n_logits < 0 || n_logits > n || n > cache.n_ctx() - cache.length()) {
    throw std::invalid_argument("a forward of this many rows is not possible");
  }
  for (int i = 0; i < n; ++i) {
    if (tokens[i] < 0 || tokens[i] >= spec.n_vocab) throw std::invalid_argument("no such token id");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  Scratch& s = *scratch_;
  const size_t rows = static_cast<size_t>(n);
  const auto fit = [rows](std::vector<float>& buffer, int cols) {
    if (buffer.size() < rows * cols) buffer.resize(rows * cols);
  };
  const int q_dim = spec.n_head * spec.head_dim, kv_dim = spec.n_kv_head * spec.head_dim;
  fit(s.residual, spec.n_embd);
  fit(s.projected, spec.n_embd);
  fit(s.query, q_dim);
  fit(s.key, kv_dim);
  fit(s.value, kv_dim);
  fit(s.gate, spec.n_ff);
  fit(s.up, spec.n_ff);
  for (size_t i = 0; i < s.ropes.size(); ++i) {
    const int needed = cache.length() + n;
    s.ropes[i].grow(model_->ropes[i], (needed + kRopeStep - 1) / kRopeStep * kRopeStep);
  }
  Pass pass{*model_,
            spec,
            kernels_,
            pool_,
            s,
            cache,
            tokens,
            n,
            n_logits,
            logits,
            s.embd_in.view(n, spec.n_embd),
            s.attention_in.view(n, q_dim),
            s.ffn_in.view(n, spec.n_ff),
            is_quantized(model_->output_head().view().layout)};
  for (std::atomic<int>& next : s.next_tile) next.store(0, std::memory_order_relaxed);
  pool_.run([&pass](int member) { pass.run(member); });
  cache.extend(n);
}

}  // namespace maglio

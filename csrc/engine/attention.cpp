#include "engine/attention.h"

#include <algorithm>

#include "engine/pass.h"
#include "math/elementary.h"

namespace maglio {
namespace {

// A member's part of the sub-layer.
struct AttentionRun {
  Pass& pass;
  const int member;
  const int layer;
  const Attention& weights;
  const AttentionSpec& spec = weights.spec;
  const float eps = pass.model.spec.norm_eps;

  int q_dim() const { return spec.query_rows(); }
  // Where a query head is among those that are projected.
  int projected(int head) const { return spec.gated ? 2 * head : head; }
  float* query(int row, int head) const {
    return pass.scratch.query.data() + static_cast<size_t>(row) * spec.projected_rows() +
           projected(head) * width();
  }
  int kv_dim() const { return spec.kv_rows(); }
  int width() const { return spec.head_width(); }
  // The layer whose keys and values are read.
  int kv_layer() const { return spec.owns_keys() ? layer : spec.kv_layer; }
  int group() const { return spec.n_head / spec.n_kv_head; }

  void place_heads() const;
  void place_query(const Row& row, float* q, int head) const;
  void place_key(const Row& row, float* k, int head) const;
  void place_value(const Row& row, float* v, int head) const;
  void add_bias(float* x, const Vector& bias, int head) const;
  void prepare(float* x, const Vector& bias, int head, const Vector& norm) const;
  void rotate(float* x, int position, float scale) const;
  void norm_wide() const;
  void attend() const;
  void attend_range(const RowRange& range, int first, int last) const;
  void gather(int row) const;
  void hand_over() const;
};

void AttentionRun::add_bias(float* x, const Vector& bias, int head) const {
  if (bias.empty()) return;
  pass.kernels.add(x, bias.data() + static_cast<size_t>(head) * width(), width());
}

void AttentionRun::prepare(float* x, const Vector& bias, int head, const Vector& norm) const {
  add_bias(x, bias, head);
  if (!norm.empty()) pass.kernels.rms_norm(x, norm.data(), spec.head_dim, eps, x);
}

// Rotates what is rotated of a head, and scales all of it.
void AttentionRun::rotate(float* x, int position, float scale) const {
  int rotated = 0;
  if (spec.rope != kNoRope) {
    const RopeTable& rope = pass.scratch.ropes[static_cast<size_t>(spec.rope)];
    rotated = spec.rotated_values();
    pass.kernels.rope(x, rope.cosines(position), rope.sines(position), rotated / 2, scale);
  }
  for (int i = rotated; i < spec.head_dim; ++i) x[i] *= scale;
}

// Norms over all heads of a row together.
void AttentionRun::norm_wide() const {
  const auto norm = [this](float* x, const Vector& bias, const Vector& weight, int n) {
    if (!bias.empty()) pass.kernels.add(x, bias.data(), n);
    pass.kernels.rms_norm(x, weight.data(), n, eps, x);
  };
  pass.each_row(member, pass.n(), [&](int row) {
    const size_t at = static_cast<size_t>(row);
    norm(query(row, 0), weights.query_bias, weights.query_norm, q_dim());
    if (!spec.owns_keys()) return;
    norm(pass.scratch.key.data() + at * kv_dim(), weights.key_bias, weights.key_norm, kv_dim());
  });
}

void AttentionRun::place_query(const Row& row, float* q, int head) const {
  if (!spec.wide_norms) prepare(q, weights.query_bias, projected(head), weights.query_norm);
  if (spec.gated) prepare(q + width(), weights.query_bias, projected(head) + 1, {});
  float scale = spec.scale;
  if (spec.temperature != 0.0f) {
    const double growth = natural_log(1.0 + row.position / spec.temperature_length);
    scale *= static_cast<float>(1.0 + spec.temperature * growth);
  }
  rotate(q, row.position, scale);
}

void AttentionRun::place_key(const Row& row, float* k, int head) const {
  if (!spec.wide_norms) prepare(k, weights.key_bias, head, weights.key_norm);
  rotate(k, row.position, 1.0f);
  pass.kernels.keep_key(row.cache->head(layer, head), width(), row.position, k);
}

void AttentionRun::place_value(const Row& row, float* v, int head) const {
  add_bias(v, spec.keys_as_values ? weights.key_bias : weights.value_bias, head);
  if (spec.value_norms) pass.kernels.rms_norm(v, nullptr, spec.head_dim, eps, v);
  pass.kernels.keep_value(row.cache->head(layer, head), width(), row.position, v);
}

void AttentionRun::place_heads() const {
  const int heads = spec.n_head + (spec.owns_keys() ? spec.n_kv_head : 0);
  const Share mine = share_of(pass.n() * heads, member, pass.team());
  for (int i = mine.begin; i < mine.end; ++i) {
    const size_t at = static_cast<size_t>(i / heads);
    const int head = i % heads, kv = head - spec.n_head;
    const Row& row = pass.rows[at];
    if (kv < 0) {
      place_query(row, query(i / heads, head), head);
      continue;
    }
    float* key = pass.scratch.key.data() + at * kv_dim() + kv * width();
    float* value = pass.scratch.value.data() + at * kv_dim() + kv * width();
    if (spec.keys_as_values) std::copy_n(key, width(), value);
    place_key(row, key, kv);
    place_value(row, value, kv);
  }
  pass.pool.barrier();
}

// Queries [first, last) of a cache's rows, in the order (kv head, row, head of the group), so that
// neighbours share a pass.
void AttentionRun::attend_range(const RowRange& range, int first, int last) const {
  float* out = spec.gathers() ? pass.scratch.attended.data()
                              : pass.scratch.attention_in.view(q_dim()).values;
  const int per_kv = range.n * group();
  AttentionQuery queries[kMaxAttentionQueries];
  for (int i = first; i < last;) {
    const int kv = i / per_kv;
    int count = 0;
    for (; count < kMaxAttentionQueries && i < last && i / per_kv == kv; ++count, ++i) {
      const int row = range.first + i % per_kv / group();
      const int head = kv * group() + i % group();
      const size_t at = static_cast<size_t>(row) * q_dim() + static_cast<size_t>(head) * width();
      const int end = pass.rows[static_cast<size_t>(row)].position + 1;
      const int begin = spec.window > 0 ? std::max(0, end - spec.window) : 0;
      const float sink = spec.sinks ? weights.sinks[static_cast<size_t>(head)] : kNoSink;
      queries[count] = {query(row, head), out + at, begin, end, sink};
    }
    pass.kernels.attend(range.cache->head(kv_layer(), kv), width(), spec.cap, queries, count);
    for (int q = 0; q < count && spec.gated; ++q) {
      pass.kernels.scale_by_sigmoid(queries[q].out, queries[q].query + width(), spec.head_dim);
    }
  }
}

// The first query of a range that lies at or past `weight`, when each weighs `each` and the range
// begins at `begin`.
int query_at(int64_t weight, int64_t begin, int64_t each, int queries) {
  const int64_t query = weight > begin ? (weight - begin) / each : 0;
  return static_cast<int>(std::min<int64_t>(query, queries));
}

// Members get equal shares of the positions read, since contexts may differ a hundredfold. All
// queries of a range count the same, so that they are shared out evenly when it is alone.
void AttentionRun::attend() const {
  const auto each = [this](const RowRange& range) -> int64_t {
    const int context = pass.rows[static_cast<size_t>(range.first)].position + range.n;
    return spec.window > 0 ? std::min(context, spec.window) : context;
  };
  int64_t total = 0;
  for (const RowRange& range : pass.ranges) total += each(range) * range.n * spec.n_head;
  const int64_t from = total * member / pass.team(), to = total * (member + 1) / pass.team();
  int64_t begin = 0;
  for (const RowRange& range : pass.ranges) {
    const int queries = range.n * spec.n_head;
    const int first = query_at(from, begin, each(range), queries);
    const int last = query_at(to, begin, each(range), queries);
    if (first < last) attend_range(range, first, last);
    begin += each(range) * queries;
  }
  pass.pool.barrier();
}

// Brings a row's heads together, without the zeros that follow each.
void AttentionRun::gather(int row) const {
  const float* from = pass.scratch.attended.data() + static_cast<size_t>(row) * q_dim();
  const int cols = padded(spec.output_cols());
  float* to = pass.scratch.attention_in.view(cols).values + static_cast<size_t>(row) * cols;
  for (int head = 0; head < spec.n_head; ++head) {
    std::copy(from + head * width(), from + head * width() + spec.head_dim,
              to + head * spec.head_dim);
  }
}

void AttentionRun::hand_over() const {
  const bool quantized = is_quantized(weights.output.view().layout);
  if (spec.gathers()) {
    const Activations out = pass.scratch.attention_in.view(padded(spec.output_cols()));
    const size_t blocks = static_cast<size_t>(out.cols / kBlockValues);
    return pass.each_row(member, pass.n(), [&](int row) {
      gather(row);
      const size_t at = static_cast<size_t>(row) * blocks;
      if (quantized) pass.kernels.quantize(out, at, at + blocks);
    });
  }
  if (!quantized) return;
  const Share blocks = share_of(pass.n() * q_dim() / kBlockValues, member, pass.team());
  pass.kernels.quantize(pass.scratch.attention_in.view(q_dim()), static_cast<size_t>(blocks.begin),
                        static_cast<size_t>(blocks.end));
  pass.pool.barrier();
}

}  // namespace

bool Attention::reads_codes() const {
  return query.reads_codes() || key.reads_codes() || value.reads_codes();
}

void Attention::run(Pass& pass, int member, int layer) const {
  const AttentionRun part{pass, member, layer, *this};
  Scratch& s = pass.scratch;
  const int phase = layer * kLayerPhases, n = pass.n();
  const Activations in = s.embd_in.view(pass.width());
  Product products[3] = {{query.view(), in, s.query.data(), n, spec.projected_rows()}};
  size_t count = 1;
  if (spec.owns_keys()) products[count++] = {key.view(), in, s.key.data(), n, part.kv_dim()};
  if (spec.owns_values()) products[count++] = {value.view(), in, s.value.data(), n, part.kv_dim()};
  pass.project(phase + kMixerInput, products, count);
  if (spec.wide_norms) part.norm_wide();
  part.place_heads();
  part.attend();
  part.hand_over();
  const Activations out = s.attention_in.view(padded(spec.output_cols()));
  pass.project(phase + kOutput, {{output.view(), out, s.projected.data(), n, pass.width()}});
}

}  // namespace maglio

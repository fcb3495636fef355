#include "engine/experts.h"

#include <algorithm>
#include <cmath>

#include "engine/pass.h"

namespace maglio {
namespace {

// A member's part of the sub-layer.
struct ExpertsRun {
  Pass& pass;
  const int member;
  const Experts& weights;
  const ExpertsSpec& spec = weights.spec;
  const int n_embd = pass.model.spec.n_embd;
  ExpertsScratch& own = pass.scratch.experts;
  Routing& routing = own.routing;

  int places() const { return pass.n() * spec.n_used; }
  int shared_width() const { return padded(spec.n_shared_ff); }

  void norm_router(int row) const;
  void ask_router(int phase) const;
  void list_shared_products() const;
  void list_products() const;
  void route() const;
  void gather() const;
  void add_bias(const Vector& bias, float* values, size_t begin, size_t end) const;
  void activate(const Matrix& next, float* gate, float* up, const Activations& hidden,
                int n_rows) const;
  void add_up(int row) const;
};

// What the router reads of a row where it has a norm of its own.
void ExpertsRun::norm_router(int row) const {
  const Activations in = own.router_in.view(n_embd);
  const size_t blocks = static_cast<size_t>(n_embd / kBlockValues), at = static_cast<size_t>(row);
  float* out = in.values + at * n_embd;
  const float shrink = 1.0f / std::sqrt(static_cast<float>(n_embd));
  pass.kernels.rms_norm(pass.residual(row), weights.router_norm.data(), n_embd,
                        pass.model.spec.norm_eps, out);
  for (int i = 0; i < n_embd; ++i) out[i] *= shrink;
  if (weights.router.reads_codes()) pass.kernels.quantize(in, at * blocks, (at + 1) * blocks);
}

void ExpertsRun::ask_router(int phase) const {
  if (spec.norms_router) pass.each_row(member, pass.n(), [this](int row) { norm_router(row); });
  const Activations in = (spec.norms_router ? own.router_in : pass.scratch.embd_in).view(n_embd);
  const Product products[] = {
      {weights.router.view(), in, routing.probabilities.data(), pass.n(), spec.n_expert},
      {weights.shared_router.view(), in, own.shared_weights.data(), pass.n(), 1}};
  pass.project(phase, products, spec.weighs_shared ? 2 : 1);
}

void ExpertsRun::list_shared_products() const {
  const Activations in = pass.scratch.embd_in.view(n_embd);
  const Activations hidden = own.shared_in.view(shared_width());
  const int n = pass.n(), width = shared_width();
  own.gate_up.push_back({weights.shared_gate.view(), in, own.shared_gate.data(), n, width});
  own.gate_up.push_back({weights.shared_up.view(), in, own.shared_up.data(), n, width});
  own.down.push_back({weights.shared_down.view(), hidden, own.shared_out.data(), n, n_embd});
}

void ExpertsRun::list_products() const {
  Scratch& s = pass.scratch;
  const Activations in = own.in.view(n_embd), hidden = s.ffn_in.view(spec.n_ff);
  own.gate_up.clear();
  own.down.clear();
  if (spec.n_shared_ff > 0) list_shared_products();
  for (int e = 0; e < spec.n_expert; ++e) {
    const int first = routing.first_place[e], n = routing.first_place[e + 1] - first;
    if (n == 0) continue;
    const size_t ff = static_cast<size_t>(first) * spec.n_ff;
    const size_t embd = static_cast<size_t>(first) * n_embd;
    const auto of = [&](const Matrix& all, int rows) { return all.view(e * rows, rows); };
    own.gate_up.push_back(
        {of(weights.gate, spec.n_ff), in, s.gate.data() + ff, n, spec.n_ff, first});
    own.gate_up.push_back({of(weights.up, spec.n_ff), in, s.up.data() + ff, n, spec.n_ff, first});
    own.down.push_back(
        {of(weights.down, n_embd), hidden, own.outputs.data() + embd, n, n_embd, first});
  }
}

// By one member: it is little, and the others need all of it.
void ExpertsRun::route() const {
  if (member == 0) {
    for (int row = 0; row < pass.n(); ++row) {
      routing.choose(spec, pass.kernels, weights.router_bias, weights.selection_bias, row);
    }
    routing.place(spec, pass.n());
    list_products();
  }
  pass.pool.barrier();
}

// Copies rows as they are, in 8 bits and as floats, whichever are read.
void ExpertsRun::gather() const {
  const Activations from = pass.scratch.embd_in.view(n_embd), to = own.in.view(n_embd);
  const size_t cols = static_cast<size_t>(n_embd), blocks = cols / kBlockValues;
  const bool gate_codes = weights.gate.reads_codes(), up_codes = weights.up.reads_codes();
  const auto copy = [](const auto* source, auto* target, size_t row, size_t place, size_t n) {
    std::copy_n(source + row * n, n, target + place * n);
  };
  pass.each_row(member, places(), [&](int i) {
    const size_t place = static_cast<size_t>(i), row = static_cast<size_t>(routing.rows[place]);
    if (!gate_codes || !up_codes) copy(from.values, to.values, row, place, cols);
    if (!gate_codes && !up_codes) return;
    copy(from.codes, to.codes, row, place, cols);
    copy(from.scales, to.scales, row, place, blocks);
    copy(from.scaled_sums, to.scaled_sums, row, place, blocks);
    copy(from.neg_sums, to.neg_sums, row, place, 2 * blocks);
  });
}

// Adds to values [begin, end), counted over all places, the biases of the experts whose they are.
void ExpertsRun::add_bias(const Vector& bias, float* values, size_t begin, size_t end) const {
  if (bias.empty()) return;
  const size_t n_ff = static_cast<size_t>(spec.n_ff);
  for (size_t at = begin; at < end;) {
    const size_t place = at / n_ff, column = at % n_ff;
    const size_t n = std::min(end - at, n_ff - column);
    const size_t first = static_cast<size_t>(routing.owners[place]) * n_ff + column;
    pass.kernels.add(values + at, bias.data() + first, static_cast<int>(n));
    at += n;
  }
}

// A member's share of `n_rows` rows that `next` reads. Whose bias it is depends on the place, so
// the shared expert has none.
void ExpertsRun::activate(const Matrix& next, float* gate, float* up, const Activations& hidden,
                          int n_rows) const {
  const Share blocks = share_of(n_rows * (hidden.cols / kBlockValues), member, pass.team());
  const size_t first = static_cast<size_t>(blocks.begin), last = static_cast<size_t>(blocks.end);
  const size_t begin = first * kBlockValues, end = last * kBlockValues;
  if (&next == &weights.down) {
    add_bias(weights.gate_bias, gate, begin, end);
    add_bias(weights.up_bias, up, begin, end);
  }
  pass.kernels.gate(spec.activation, gate + begin, up + begin, hidden.values + begin,
                    static_cast<int>(end - begin));
  if (is_quantized(next.view().layout)) pass.kernels.quantize(hidden, first, last);
}

// In the order of ranks, which are the row's own.
void ExpertsRun::add_up(int row) const {
  float* out = pass.scratch.projected.data() + static_cast<size_t>(row) * n_embd;
  std::fill_n(out, n_embd, 0.0f);
  const size_t first = static_cast<size_t>(row) * spec.n_used;
  for (size_t i = first; i < first + spec.n_used; ++i) {
    float* y = own.outputs.data() + static_cast<size_t>(routing.places[i]) * n_embd;
    if (!weights.down_scale.empty()) {
      const float scale = weights.down_scale[static_cast<size_t>(routing.experts[i])];
      for (int j = 0; j < n_embd; ++j) y[j] *= scale;
    }
    if (!weights.down_bias.empty()) {
      const size_t bias = static_cast<size_t>(routing.experts[i]) * n_embd;
      pass.kernels.add(y, weights.down_bias.data() + bias, n_embd);
    }
    const float weight = routing.weights[i];
    for (int j = 0; j < n_embd; ++j) out[j] += weight * y[j];
  }
  if (spec.n_shared_ff == 0) return;
  float weight = 1;
  if (spec.weighs_shared) {
    weight = own.shared_weights[static_cast<size_t>(row)];
    pass.kernels.sigmoid(&weight, 1);
  }
  const float* y = own.shared_out.data() + static_cast<size_t>(row) * n_embd;
  for (int j = 0; j < n_embd; ++j) out[j] += weight * y[j];
}

}  // namespace

bool Experts::reads_codes() const {
  return router.reads_codes() || gate.reads_codes() || up.reads_codes() ||
         shared_gate.reads_codes() || shared_up.reads_codes() || shared_router.reads_codes();
}

void Experts::run(Pass& pass, int member, int layer) const {
  const ExpertsRun part{pass, member, *this};
  const int phase = layer * kLayerPhases;
  Scratch& s = pass.scratch;
  ExpertsScratch& own = s.experts;
  part.ask_router(phase + kRouter);
  part.route();
  part.gather();
  pass.project(phase + kExpertsGateUp, own.gate_up.data(), own.gate_up.size());
  part.activate(down, s.gate.data(), s.up.data(), s.ffn_in.view(spec.n_ff), part.places());
  if (spec.n_shared_ff > 0) {
    part.activate(shared_down, own.shared_gate.data(), own.shared_up.data(),
                  own.shared_in.view(part.shared_width()), pass.n());
  }
  pass.pool.barrier();
  pass.project(phase + kExpertsDown, own.down.data(), own.down.size());
  pass.each_row(member, pass.n(), [&](int row) { part.add_up(row); });
}

}  // namespace maglio

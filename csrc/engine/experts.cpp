#include "engine/experts.h"

#include <algorithm>

#include "engine/pass.h"

namespace maglio {
namespace {

// What the weights of a row's experts are divided by is at least this, the smallest normal number
// in half precision. llama.cpp's bound, for rows that no expert wants.
constexpr float kLeastSum = 6.103515625e-5f;

// A member's part of the sub-layer.
struct ExpertsRun {
  Pass& pass;
  const int member;
  const Experts& weights;
  const ExpertsSpec& spec = weights.spec;
  const int n_embd = pass.model.spec.n_embd;
  Routing& routing = pass.scratch.routing;

  int places() const { return pass.n() * spec.n_used; }
  size_t first_of_row(int row) const { return static_cast<size_t>(row) * spec.n_used; }

  void choose(int row) const;
  void place_rows() const;
  void list_products() const;
  void route() const;
  void gather() const;
  void activate() const;
  void add_up(int row) const;
};

// Ties go to the expert that comes first.
void ExpertsRun::choose(int row) const {
  float* p = routing.probabilities.data() + static_cast<size_t>(row) * spec.n_expert;
  int* experts = routing.experts.data() + first_of_row(row);
  float* chosen = routing.weights.data() + first_of_row(row);
  pass.kernels.softmax(p, spec.n_expert);
  float sum = 0;
  for (int rank = 0; rank < spec.n_used; ++rank) {
    // What was taken lies below every probability. (Among numbers that are none, in a damaged
    // model, an expert may be taken twice; nothing else depends on it.)
    int best = 0;
    for (int e = 1; e < spec.n_expert; ++e) best = p[e] > p[best] ? e : best;
    experts[rank] = best;
    chosen[rank] = p[best];
    sum += p[best];
    p[best] = -1;
  }
  for (int rank = 0; rank < spec.n_used; ++rank) {
    if (spec.normalize) chosen[rank] /= std::max(sum, kLeastSum);
    if (spec.scale != 1.0f) chosen[rank] *= spec.scale;
  }
}

void ExpertsRun::place_rows() const {
  std::vector<int>& first = routing.first_place;
  std::fill(first.begin(), first.end(), 0);
  for (int i = 0; i < places(); ++i) ++first[static_cast<size_t>(routing.experts[i]) + 1];
  for (int e = 0; e < spec.n_expert; ++e) first[e + 1] += first[e];
  // Each place taken moves the beginning of its expert on, to that of the next one in the end.
  for (int i = 0; i < places(); ++i) {
    const int place = first[routing.experts[i]]++;
    routing.places[i] = place;
    routing.rows[place] = i / spec.n_used;
  }
  for (int e = spec.n_expert; e > 0; --e) first[e] = first[e - 1];
  first[0] = 0;
}

void ExpertsRun::list_products() const {
  Scratch& s = pass.scratch;
  const Activations in = routing.in.view(n_embd), hidden = s.ffn_in.view(spec.n_ff);
  routing.gate_up.clear();
  routing.down.clear();
  for (int e = 0; e < spec.n_expert; ++e) {
    const int first = routing.first_place[e], n = routing.first_place[e + 1] - first;
    if (n == 0) continue;
    const size_t ff = static_cast<size_t>(first) * spec.n_ff;
    const size_t embd = static_cast<size_t>(first) * n_embd;
    const auto of = [&](const Matrix& all, int rows) { return all.view(e * rows, rows); };
    routing.gate_up.push_back(
        {of(weights.gate, spec.n_ff), in, s.gate.data() + ff, n, spec.n_ff, first});
    routing.gate_up.push_back(
        {of(weights.up, spec.n_ff), in, s.up.data() + ff, n, spec.n_ff, first});
    routing.down.push_back(
        {of(weights.down, n_embd), hidden, routing.outputs.data() + embd, n, n_embd, first});
  }
}

// By one member: it is little, and the others need all of it.
void ExpertsRun::route() const {
  if (member == 0) {
    for (int row = 0; row < pass.n(); ++row) choose(row);
    place_rows();
    list_products();
  }
  pass.pool.barrier();
}

// Copies rows as they are, in 8 bits and as floats, whichever are read.
void ExpertsRun::gather() const {
  const Activations from = pass.scratch.embd_in.view(n_embd), to = routing.in.view(n_embd);
  const size_t cols = static_cast<size_t>(n_embd), blocks = cols / kBlockValues;
  const bool gate_codes = is_quantized(weights.gate.view().layout);
  const bool up_codes = is_quantized(weights.up.view().layout);
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

void ExpertsRun::activate() const {
  Scratch& s = pass.scratch;
  const Activations hidden = s.ffn_in.view(spec.n_ff);
  const Share blocks = share_of(places() * (spec.n_ff / kBlockValues), member, pass.team());
  const size_t first = static_cast<size_t>(blocks.begin), last = static_cast<size_t>(blocks.end);
  const size_t begin = first * kBlockValues, n = (last - first) * kBlockValues;
  pass.kernels.gate(spec.activation, s.gate.data() + begin, s.up.data() + begin,
                    hidden.values + begin, static_cast<int>(n));
  if (is_quantized(weights.down.view().layout)) pass.kernels.quantize(hidden, first, last);
  pass.pool.barrier();
}

// In the order of ranks, which are the row's own.
void ExpertsRun::add_up(int row) const {
  float* out = pass.scratch.projected.data() + static_cast<size_t>(row) * n_embd;
  std::fill_n(out, n_embd, 0.0f);
  for (size_t i = first_of_row(row); i < first_of_row(row + 1); ++i) {
    const float* y = routing.outputs.data() + static_cast<size_t>(routing.places[i]) * n_embd;
    const float weight = routing.weights[i];
    for (int j = 0; j < n_embd; ++j) out[j] += weight * y[j];
  }
}

}  // namespace

bool Experts::reads_codes() const {
  return is_quantized(router.view().layout) || is_quantized(gate.view().layout) ||
         is_quantized(up.view().layout);
}

void Experts::run(Pass& pass, int member, int layer) const {
  const ExpertsRun part{pass, member, *this};
  const int phase = layer * kLayerPhases;
  const Routing& routing = pass.scratch.routing;
  const Activations in = pass.scratch.embd_in.view(pass.model.spec.n_embd);
  pass.project(phase + kRouter, {{router.view(), in, pass.scratch.routing.probabilities.data(),
                                  pass.n(), spec.n_expert}});
  part.route();
  part.gather();
  pass.project(phase + kGateUp, routing.gate_up.data(), routing.gate_up.size());
  part.activate();
  pass.project(phase + kDown, routing.down.data(), routing.down.size());
  pass.each_row(member, pass.n(), [&](int row) { part.add_up(row); });
}

}  // namespace maglio

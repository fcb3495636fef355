#include "engine/routing.h"

#include <algorithm>
#include <limits>

namespace maglio {
namespace {

// What the weights of a row's experts are divided by is at least this, the smallest normal number
// in half precision. llama.cpp's bound, for rows that no expert wants.
constexpr float kLeastSum = 6.103515625e-5f;
constexpr float kTaken = -std::numeric_limits<float>::infinity();

template <typename T>
void fit_to(std::vector<T>& buffer, int rows, int cols) {
  const size_t n = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  if (buffer.size() < n) buffer.resize(n);
}

// Of the two largest.
float best_two(const float* x, int n) {
  float first = kTaken, second = kTaken;
  for (int i = 0; i < n; ++i) {
    if (x[i] > first) {
      second = first;
      first = x[i];
    } else if (x[i] > second) {
      second = x[i];
    }
  }
  return first + second;
}

}  // namespace

void Routing::fit(const ExpertsSpec& spec, int n_rows) {
  fit_to(probabilities, n_rows, spec.n_expert);
  fit_to(experts, n_rows, spec.n_used);
  fit_to(weights, n_rows, spec.n_used);
  fit_to(places, n_rows, spec.n_used);
  fit_to(rows, n_rows, spec.n_used);
  fit_to(owners, n_rows, spec.n_used);
  fit_to(first_place, 1, spec.n_expert + 1);
  fit_to(scores_, 1, spec.n_expert);
  fit_to(groups_, 1, spec.n_group);
}

// Leaves the experts of the best groups; a group is as good as its two best experts together.
void Routing::keep_groups(const ExpertsSpec& spec) {
  const int each = spec.n_expert / spec.n_group;
  for (int g = 0; g < spec.n_group; ++g) groups_[g] = best_two(scores_.data() + g * each, each);
  for (int g = 0; g < spec.n_group; ++g) {
    int better = 0;
    for (int other = 0; other < spec.n_group; ++other) {
      if (groups_[other] > groups_[g] || (groups_[other] == groups_[g] && other < g)) ++better;
    }
    if (better >= spec.n_group_used) std::fill_n(scores_.data() + g * each, each, kTaken);
  }
}

void Routing::score(const ExpertsSpec& spec, const float* p, const Vector& selection_bias) {
  std::copy_n(p, spec.n_expert, scores_.data());
  if (!selection_bias.empty()) {
    for (int e = 0; e < spec.n_expert; ++e) scores_[e] += selection_bias[e];
  }
  if (spec.n_group > 1) keep_groups(spec);
}

// Ties go to the expert that comes first. (Among numbers that are none, in a damaged model, an
// expert may be taken twice; nothing else depends on it.)
void Routing::choose(const ExpertsSpec& spec, const Kernels& kernels, const Vector& router_bias,
                     const Vector& selection_bias, int row) {
  float* p = probabilities.data() + static_cast<size_t>(row) * spec.n_expert;
  int* taken = experts.data() + static_cast<size_t>(row) * spec.n_used;
  float* chosen = weights.data() + static_cast<size_t>(row) * spec.n_used;
  if (!router_bias.empty()) {
    for (int e = 0; e < spec.n_expert; ++e) p[e] += router_bias[e];
  }
  const auto gate = spec.gating == Gating::kSoftmax ? kernels.softmax : kernels.sigmoid;
  gate(p, spec.n_expert);
  score(spec, p, selection_bias);
  float sum = 0;
  for (int rank = 0; rank < spec.n_used; ++rank) {
    int best = 0;
    for (int e = 1; e < spec.n_expert; ++e) best = scores_[e] > scores_[best] ? e : best;
    scores_[best] = kTaken;
    taken[rank] = best;
    chosen[rank] = p[best];
    sum += p[best];
  }
  for (int rank = 0; rank < spec.n_used; ++rank) {
    if (spec.normalize) chosen[rank] /= std::max(sum, kLeastSum);
    if (spec.scale != 1.0f) chosen[rank] *= spec.scale;
  }
}

void Routing::place(const ExpertsSpec& spec, int n_rows) {
  const int n = n_rows * spec.n_used;
  std::fill(first_place.begin(), first_place.end(), 0);
  for (int i = 0; i < n; ++i) ++first_place[static_cast<size_t>(experts[i]) + 1];
  for (int e = 0; e < spec.n_expert; ++e) first_place[e + 1] += first_place[e];
  // Each place taken moves the beginning of its expert on, to that of the next one in the end.
  for (int i = 0; i < n; ++i) {
    const int at = first_place[experts[i]]++;
    places[i] = at;
    rows[at] = i / spec.n_used;
    owners[at] = experts[i];
  }
  for (int e = spec.n_expert; e > 0; --e) first_place[e] = first_place[e - 1];
  first_place[0] = 0;
}

}  // namespace maglio

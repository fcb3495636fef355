// Which experts the rows of a layer take, and where their inputs lie.
//
// Inputs are gathered by expert, and within an expert in the order of rows. Where a row lies among
// them is a place. What a row takes depends on its own scores only.
#pragma once

#include <vector>

#include "engine/spec.h"
#include "engine/visit.h"

namespace maglio {

struct Routing {
  std::vector<float> probabilities;  // [row][n_expert]: the router's products, until choose()
  std::vector<int> experts;          // [row][rank], best first
  std::vector<float> weights;        // [row][rank]
  std::vector<int> places;           // [row][rank]
  std::vector<int> rows;             // [place]
  std::vector<int> owners;           // [place]: the expert
  std::vector<int> first_place;      // [n_expert + 1]

  // Makes room for that many rows.
  void fit(const ExpertsSpec& spec, int n_rows);
  // Which experts a row takes, and how it weighs them. `router_bias` and `selection_bias` may be
  // empty.
  void choose(const ExpertsSpec& spec, const Kernels& kernels, const Vector& router_bias,
              const Vector& selection_bias, int row);
  // Gives a place to every expert of every row.
  void place(const ExpertsSpec& spec, int n_rows);

 private:
  void score(const ExpertsSpec& spec, const float* probabilities, const Vector& selection_bias);
  void keep_groups(const ExpertsSpec& spec);

  std::vector<float> scores_;  // [n_expert] of one row: what experts are chosen by
  std::vector<float> groups_;  // [n_group], likewise
};

}  // namespace maglio

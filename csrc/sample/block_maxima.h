// One pass over a row of logits that leaves the maximum of every block of 64.
//
// The n-th largest block maximum is a lower bound of the n-th largest logit, so the best n logits
// are found by looking again only into the few blocks whose maximum reaches that bound.
#pragma once

#include <cstddef>
#include <vector>

namespace maglio {

constexpr size_t kLogitBlock = 64;

// Fills `maxima` with one maximum per block (the last block may be shorter; NaN counts as -inf).
// Returns whether the row holds a NaN. Allocates only when `maxima` has to grow.
bool block_maxima(const float* row, size_t size, std::vector<float>* maxima);

// A bound that at least `count` logits of the row reach, or -inf when there are too few blocks to
// tell. `scratch` is overwritten.
float rank_bound(const std::vector<float>& maxima, size_t count, std::vector<float>* scratch);

}  // namespace maglio

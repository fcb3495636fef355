#include "sample/block_maxima.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

namespace maglio {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// Four floats in a register on every target; written out because compilers do not turn a maximum
// that must keep NaN and -0 apart into vector code.
constexpr size_t kLanes = 4;
typedef float Lanes __attribute__((vector_size(sizeof(float) * kLanes)));
typedef int32_t Mask __attribute__((vector_size(sizeof(float) * kLanes)));

Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }  // b where either is NaN

float whole_block_max(const float* x, Mask* nan) {
  constexpr size_t kVectors = 4;  // independent chains
  Lanes best[kVectors];
  for (Lanes& lanes : best) lanes = Lanes{} + kImpossible;
  for (size_t i = 0; i < kLogitBlock; i += kVectors * kLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      Lanes logits;
      std::memcpy(&logits, x + i + v * kLanes, sizeof logits);
      best[v] = larger(logits, best[v]);
      *nan |= logits != logits;
    }
  }
  const Lanes lanes = larger(larger(best[0], best[1]), larger(best[2], best[3]));
  return std::max(std::max(lanes[0], lanes[1]), std::max(lanes[2], lanes[3]));
}

float last_block_max(const float* x, size_t size, bool* has_nan) {
  float best = kImpossible;
  for (size_t i = 0; i < size; ++i) {
    best = x[i] > best ? x[i] : best;
    *has_nan |= x[i] != x[i];
  }
  return best;
}

}  // namespace

bool block_maxima(const float* row, size_t size, std::vector<float>* maxima) {
  bool has_nan = false;
  Mask nan{};
  const size_t whole = size / kLogitBlock, rest = size % kLogitBlock;
  maxima->resize(whole + (rest > 0));
  for (size_t block = 0; block < whole; ++block) {
    (*maxima)[block] = whole_block_max(row + block * kLogitBlock, &nan);
  }
  if (rest > 0) maxima->back() = last_block_max(row + whole * kLogitBlock, rest, &has_nan);
  return has_nan || nan[0] || nan[1] || nan[2] || nan[3];
}

float rank_bound(const std::vector<float>& maxima, size_t count, std::vector<float>* scratch) {
  if (count == 0 || count > maxima.size()) return kImpossible;
  *scratch = maxima;
  const auto nth = scratch->begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(scratch->begin(), nth, scratch->end(), std::greater<float>());
  return *nth;
}

}  // namespace maglio

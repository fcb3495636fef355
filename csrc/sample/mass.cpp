#include "sample/mass.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "math/elementary.h"
#include "sample/block_maxima.h"
#include "sample/weight.h"

namespace maglio {

uint64_t row_mass(const float* logits, size_t size, float best, float inverse_temperature) {
  uint64_t mass = 0;
  size_t id = 0;
  for (; id + kLogitBlock <= size; id += kLogitBlock) {
    // Stage by stage and of fixed size, so that each loop compiles to vector code.
    float exponentials[kLogitBlock];
    for (size_t i = 0; i < kLogitBlock; ++i) {
      exponentials[i] = exp_nonpositive((logits[id + i] - best) * inverse_temperature);
    }
    mass += sum_weights(exponentials, kLogitBlock);
  }
  for (; id < size; ++id) mass += weight((logits[id] - best) * inverse_temperature);
  return mass;
}

double log_mass(const float* logits, size_t size) {
  std::vector<float> maxima;
  if (block_maxima(logits, size, &maxima)) return std::numeric_limits<double>::quiet_NaN();
  const float best = maxima.empty() ? -std::numeric_limits<float>::infinity()
                                    : *std::max_element(maxima.begin(), maxima.end());
  if (!std::isfinite(best)) return best;
  const double units = static_cast<double>(row_mass(logits, size, best, 1.0f));
  return best + natural_log(units / static_cast<double>(kUnitWeight));
}

}  // namespace maglio

// What a row of logits weighs as a whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maglio {

// The sum of weight((logit - best) * inverse_temperature) over a row. Exact, so in no order.
uint64_t row_mass(const float* logits, size_t size, float best, float inverse_temperature);

// The natural logarithm of the sum of exp(logit). NaN for a row with NaN, infinite for one that has
// +inf or nothing above -inf.
double log_mass(const float* logits, size_t size);

}  // namespace maglio

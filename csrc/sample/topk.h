// The best candidates of rows of logits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maglio {

// For each of `rows` rows of `vocab` logits, writes the ids of its `count` largest logits to `out`
// (rows x count), best first, ties to the lowest id. NaN counts as -inf.
// Throws std::invalid_argument unless 1 <= count <= vocab.
void topk_rows(const float* logits, size_t rows, size_t vocab, size_t count, int32_t* out);

}  // namespace maglio

#include "sample/topk.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "sample/block_maxima.h"
#include "sample/candidate.h"

namespace maglio {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Scratch {
  std::vector<float> maxima, order;
  std::vector<uint64_t> keys;
};

void topk_row(const float* row, size_t vocab, size_t count, int32_t* out, Scratch* scratch) {
  block_maxima(row, vocab, &scratch->maxima);
  const float bound = rank_bound(scratch->maxima, count, &scratch->order);
  std::vector<uint64_t>& keys = scratch->keys;
  keys.clear();
  for (size_t block = 0; block < scratch->maxima.size(); ++block) {
    if (scratch->maxima[block] < bound) continue;
    const size_t end = std::min(vocab, (block + 1) * kLogitBlock);
    for (size_t id = block * kLogitBlock; id < end; ++id) {
      const float logit = row[id] == row[id] ? row[id] : kImpossible;
      if (logit >= bound) keys.push_back(candidate_key(logit, static_cast<uint32_t>(id)));
    }
  }
  std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), keys.end(),
                    std::greater<uint64_t>());
  std::transform(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), out,
                 candidate_id);
}

}  // namespace

void topk_rows(const float* logits, size_t rows, size_t vocab, size_t count, int32_t* out) {
  if (count == 0 || count > vocab) {
    throw std::invalid_argument("topk_rows: count is " + std::to_string(count) + ", must be 1 .. " +
                                std::to_string(vocab) + " (the row length)");
  }
  Scratch scratch;
  for (size_t row = 0; row < rows; ++row) {
    topk_row(logits + row * vocab, vocab, count, out + row * count, &scratch);
  }
}

}  // namespace maglio

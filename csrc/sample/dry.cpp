#include "sample/dry.h"

#include <algorithm>
#include <utility>

namespace maglio {
namespace {

constexpr double kMaxPenalty = 1e30;  // far beyond any logit, and leaves them finite

}  // namespace

Dry::Dry(DryParams params, std::vector<bool> breaks,
         const std::vector<std::vector<int32_t>>& sequences)
    : params_(params),
      breaks_(std::move(breaks)),
      penalties_{std::min(params.multiplier, kMaxPenalty)} {
  for (const auto& sequence : sequences) {
    tails_[sequence.front()].emplace_back(sequence.begin() + 1, sequence.end());
  }
}

// Where several breaks begin at a token, the longest counts.
size_t Dry::since_break(const std::vector<int32_t>& tokens, size_t n) const {
  for (size_t after = 0; after < n; ++after) {
    const auto first = tokens.end() - static_cast<std::ptrdiff_t>(after) - 1;
    bool found = breaks_[static_cast<size_t>(*first)];
    size_t longest = 0;
    if (const auto tails = tails_.find(*first); tails != tails_.end()) {
      for (const auto& tail : tails->second) {
        if (tail.size() > after || !std::equal(tail.begin(), tail.end(), first + 1)) continue;
        found = true;
        longest = std::max(longest, tail.size());
      }
    }
    if (found) return after - longest;
  }
  return n;
}

double Dry::penalty(size_t excess) {
  while (penalties_.size() <= excess && penalties_.back() < kMaxPenalty && params_.base > 1.0) {
    penalties_.push_back(std::min(penalties_.back() * params_.base, kMaxPenalty));
  }
  return penalties_[std::min(excess, penalties_.size() - 1)];
}

void Dry::apply(const std::vector<int32_t>& tokens, float* logits) {
  const size_t allowed = static_cast<size_t>(params_.allowed_length);
  const size_t n = params_.last_n < 0
                       ? tokens.size()
                       : std::min(tokens.size(), static_cast<size_t>(params_.last_n));
  const auto back = [&](size_t i) { return tokens[tokens.size() - 1 - i]; };  // 0: the last one
  const size_t limit = since_break(tokens, n);  // no repetition is longer
  if (limit < allowed) return;

  // matches_[k]: how many tokens before the k-th from the end are those at the end, by the Z
  // algorithm on the reversed tokens. [left, right) is the match that reaches furthest.
  matches_.assign(n, 0);
  longest_.clear();
  size_t left = 0, right = 0;
  for (size_t k = 1; k < n; ++k) {
    size_t length = k < right ? std::min(matches_[k - left], right - k) : 0;
    while (k + length < n && back(length) == back(k + length)) ++length;
    matches_[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
    const int32_t next = back(k - 1);
    if (std::min(length, limit) < allowed || breaks_[static_cast<size_t>(next)]) continue;
    size_t& longest = longest_[next];
    longest = std::max(longest, std::min(length, limit));
  }
  for (const auto& [token, length] : longest_) {
    logits[token] = static_cast<float>(logits[token] - penalty(length - allowed));
  }
}

}  // namespace maglio

// How often each token occurs among the last tokens of a stream, kept up to date token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace maglio {

class PenaltyWindow {
 public:
  // Counts the last `size` tokens; -1 counts all of them, 0 none.
  explicit PenaltyWindow(int64_t size) : size_(size) {}

  void push(int32_t token);

  // Occurrences by token, never 0.
  const std::unordered_map<int32_t, int32_t>& counts() const { return counts_; }

  // Throws std::logic_error when the counts are not those of the window.
  void check() const;

 private:
  int64_t size_;
  std::deque<int32_t> recent_;  // the window, oldest first; not kept when it is unbounded
  std::unordered_map<int32_t, int32_t> counts_;
};

}  // namespace maglio

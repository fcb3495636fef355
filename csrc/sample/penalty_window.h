// How often each token occurs among the last tokens of a stream that grows and is cut back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace maglio {

class PenaltyWindow {
 public:
  // Counts the last `size` tokens; -1 counts all of them, 0 none.
  explicit PenaltyWindow(int64_t size) : size_(size) {}

  void push(int32_t token);
  // Takes back the last push; the tokens that it made leave the window return.
  void pop();

  // Occurrences by token, never 0.
  const std::unordered_map<int32_t, int32_t>& counts() const { return counts_; }

  // Throws std::logic_error when the counts are not those of the window.
  void check() const;

 private:
  bool bounded() const { return size_ > 0; }
  void forget(int32_t token);

  int64_t size_;
  std::vector<int32_t> stream_;  // everything pushed, so that it can be taken back
  std::unordered_map<int32_t, int32_t> counts_;
};

}  // namespace maglio

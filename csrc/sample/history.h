// The tokens that penalties look at: a stream that grows and is cut back, counted in two ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace maglio {

using TokenCounts = std::unordered_map<int32_t, int32_t>;

class History {
 public:
  // Keeps no tokens unless something is counted or `keeps`.
  //   window: recent() counts the last so many; -1 all of them, 0 none.
  //   answers: whether answer() counts.
  //   keeps: whether tokens() is wanted for something else.
  History(int64_t window, bool answers, bool keeps)
      : window_(window), answers_(answers), keeps_(keeps || answers || window != 0) {}

  void push(int32_t token);
  // Takes back the last push; the tokens that it made leave the window return.
  void pop();
  // Says that the answer begins at this index, which may lie ahead.
  void begin_answer(size_t index);

  // Occurrences by token, never 0: among the last tokens, and in the answer.
  const TokenCounts& recent() const { return recent_; }
  const TokenCounts& answer() const { return answer_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

  // Throws std::logic_error when the counts are not those of the tokens.
  void check() const;

 private:
  bool bounded() const { return window_ > 0; }

  int64_t window_;
  bool answers_;
  bool keeps_;
  size_t begin_ = 0;  // where the answer begins
  std::vector<int32_t> tokens_;
  TokenCounts recent_;
  TokenCounts answer_;
};

}  // namespace maglio

// DRY ("don't repeat yourself"): makes it ever less likely that a repetition goes on.
//
// Source: P. E. Weidmann, "DRY: A modern repetition penalty that reliably prevents looping" (2024),
// with the meaning of llama.cpp's parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace maglio {

struct DryParams {
  double multiplier = 0.0;     // 0: off
  double base = 1.75;          // at least 1
  int64_t allowed_length = 2;  // at least 1
  int64_t last_n = -1;         // looks at the last so many tokens; -1: all, 0: none
};

class Dry {
 public:
  // `breaks[token]` is true of tokens over which no repetition reaches; they are never penalized.
  // Nor does one reach over the `sequences`, of two tokens or more.
  Dry(DryParams params, std::vector<bool> breaks,
      const std::vector<std::vector<int32_t>>& sequences = {});

  bool active() const { return params_.multiplier > 0.0 && params_.last_n != 0; }

  // A token that would prolong a repetition of n tokens, those before it now and earlier, loses
  // multiplier * base^(n - allowed_length) of its logit if n >= allowed_length. At most 1e30.
  void apply(const std::vector<int32_t>& tokens, float* logits);

 private:
  // How many tokens follow the last break, of the last n.
  size_t since_break(const std::vector<int32_t>& tokens, size_t n) const;
  double penalty(size_t excess);

  DryParams params_;
  std::vector<bool> breaks_;
  std::unordered_map<int32_t, std::vector<std::vector<int32_t>>> tails_;  // by first token
  std::vector<double> penalties_;  // by excess; made by multiplying, so that all builds agree
  std::vector<size_t> matches_;
  std::unordered_map<int32_t, size_t> longest_;
};

}  // namespace maglio

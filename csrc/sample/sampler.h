// One token from one row of logits: penalties, logit bias, temperature, top-k, top-p, min-p, draw.
//
// The candidates are ordered by (probability descending, id ascending); the token is the one at
// which their running probability first exceeds one uniform number. That number is a function of
// the seed and of how many tokens were drawn before, so a stream can be resumed anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sample/penalty_window.h"
#include "sample/shortlist.h"

namespace maglio {

struct SamplingParams {
  double temperature = 0.0;        // <= 0: the most probable token, ties to the lowest id
  int64_t top_k = 0;               // 0: all
  double top_p = 1.0;              // 1: all
  double min_p = 0.0;              // 0: all
  double repeat_penalty = 1.0;     // divides positive logits of the window, multiplies others
  double frequency_penalty = 0.0;  // subtracted once per occurrence in the window
  double presence_penalty = 0.0;   // subtracted once if in the window
  int64_t penalty_last_n = -1;     // size of the window; -1: the whole history
  std::vector<std::pair<int32_t, double>> logit_bias;  // added; -inf forbids a token
  uint64_t seed = 0;
};

// A row that cannot be sampled: NaN, +inf, or nothing above -inf.
struct InvalidLogits : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Sampler {
 public:
  // Throws std::invalid_argument for a vocabulary not in 1 .. 2^20 - 1 or a biased id outside it.
  Sampler(SamplingParams params, size_t vocab);

  // Appends to the history that penalties look at. All or nothing: throws std::invalid_argument
  // for an id outside the vocabulary.
  void extend(const int32_t* tokens, size_t count);

  // Takes back the history from `length` on. Throws std::invalid_argument when it is shorter.
  void truncate(uint64_t length);

  // The token that a row of `vocab` logits gives with the random number at `position`. Changes
  // nothing that a later call depends on. Throws InvalidLogits.
  int32_t sample(const float* row, uint64_t position);

  size_t vocab() const { return vocab_; }
  uint64_t length() const { return length_; }
  void check() const { window_.check(); }

 private:
  const float* adjusted(const float* row);
  void penalize();

  SamplingParams params_;
  size_t vocab_;
  bool penalizes_;
  float inverse_temperature_;
  uint64_t length_ = 0;  // of the history
  PenaltyWindow window_;
  Shortlist shortlist_;
  std::vector<float> logits_;  // the row after penalties and bias
  std::vector<float> maxima_;
};

}  // namespace maglio

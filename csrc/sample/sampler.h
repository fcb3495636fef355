// One token from one row of logits: what is added to logits, temperature, filters, and the draw.
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

#include "sample/dry.h"
#include "sample/history.h"
#include "sample/shortlist.h"

namespace maglio {

enum class Step : uint8_t {
  // On the whole row, before the others:
  kLogitBias,
  kPenalties,
  kDry,
  // On what is left:
  kTemperature,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
};

struct SamplingParams {
  std::vector<Step> order = {Step::kPenalties, Step::kDry,  Step::kLogitBias, Step::kTemperature,
                             Step::kTopNSigma, Step::kTopK, Step::kTypicalP,  Step::kTopP,
                             Step::kMinP,      Step::kXtc};
  double temperature = 0.0;        // <= 0: the most probable token, ties to the lowest id
  double top_n_sigma = 0.0;        // 0: all
  int64_t top_k = 0;               // 0: all
  double typical_p = 1.0;          // 1: all
  double top_p = 1.0;              // 1: all
  double min_p = 0.0;              // 0: all
  double xtc_probability = 0.0;    // how often the most probable tokens are dropped
  double xtc_threshold = 0.1;      // all that are at least so probable, but the last of them
  int64_t min_keep = 1;            // what filters but top-k leave at least
  double repeat_penalty = 1.0;     // divides positive logits of the window, multiplies others
  int64_t penalty_last_n = 64;     // size of the window; -1: the whole history
  double frequency_penalty = 0.0;  // subtracted once per occurrence in the answer
  double presence_penalty = 0.0;   // subtracted once if in the answer
  DryParams dry;
  // No repetition reaches over them: sequences of one token or more.
  std::vector<std::vector<int32_t>> dry_breakers;
  std::vector<int32_t> exempt;                         // never penalized; break repetitions too
  std::vector<std::pair<int32_t, double>> logit_bias;  // added; -inf forbids a token
  uint64_t seed = 0;
};

// A row that cannot be sampled: NaN, +inf, or nothing above -inf.
struct InvalidLogits : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr size_t mask_words(size_t vocab) { return (vocab + 31) / 32; }

class Sampler {
 public:
  // Throws std::invalid_argument for a vocabulary not in 1 .. 2^20 - 1 or a id outside it.
  Sampler(SamplingParams params, size_t vocab);

  // Appends to the history that penalties and DRY look at. All or nothing: throws
  // std::invalid_argument for an id outside the vocabulary.
  void extend(const int32_t* tokens, size_t count);

  // Takes back the history from `length` on. Throws std::invalid_argument when it is shorter.
  void truncate(uint64_t length);

  // Says where in the history the answer begins; it may lie ahead. At first all of it is answer.
  void begin_answer(uint64_t index) { history_.begin_answer(static_cast<size_t>(index)); }

  // The token that a row of `vocab` logits gives with the random number at `position`. Changes
  // nothing that a later call depends on. With a mask of mask_words(vocab) words, a token whose bit
  // is not set is impossible: bit i % 32 of word i / 32. Throws InvalidLogits.
  int32_t sample(const float* row, uint64_t position, const uint32_t* mask = nullptr);

  // Whether sample() gives `token` too when each logit of the row moves by at most `drift`, which
  // may be infinite. Greedily that is so when all other logits are further below its own than two
  // can come together. Else `token` is drawn from the rows that Drift names. Throws InvalidLogits.
  bool stands(int32_t token, const float* row, uint64_t position, float drift,
              const uint32_t* mask = nullptr);

  size_t vocab() const { return vocab_; }
  uint64_t length() const { return length_; }
  void check() const { history_.check(); }

 private:
  // Ways in which a row can drift to the disadvantage of one token.
  enum class Drift : uint8_t {
    kBefore,  // as much as can be is ranked before it
    kAfter,   // as much as can be is ranked after it, itself weighing little
    kBehind,  // it rises, and those that were just before it fall behind
  };

  int32_t choose(const float* logits, uint64_t position);
  bool leads(int32_t token, const float* logits, float distance) const;
  const float* drifted(int32_t token, const float* logits, float reach, Drift drift);
  float stretch() const;
  const float* adjusted(const float* row, const uint32_t* mask);
  void forbid(const uint32_t* mask);
  void penalize();
  void apply(Step step, uint64_t position);

  SamplingParams params_;
  size_t vocab_;
  float inverse_temperature_;
  uint64_t length_ = 0;        // of the history
  std::vector<bool> exempt_;   // by token: never penalized
  std::vector<Step> on_row_;   // steps before the others
  std::vector<Step> on_list_;  // the others, as far as they do anything
  Dry dry_;
  History history_;
  Shortlist shortlist_;
  std::vector<float> logits_;  // the row after the steps on it
  std::vector<float> drifted_;
  std::vector<float> maxima_;
};

}  // namespace maglio

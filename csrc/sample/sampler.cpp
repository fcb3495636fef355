#include "sample/sampler.h"

#include <algorithm>
#include <limits>
#include <string>

#include "sample/block_maxima.h"
#include "sample/philox.h"

namespace maglio {
namespace {

constexpr size_t kMaxVocab = (size_t{1} << 20) - 1;  // so that the mass of a row fits 64 bits
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool outside(int32_t token, size_t vocab) {
  return token < 0 || static_cast<size_t>(token) >= vocab;
}

std::string range(size_t vocab) { return "0 .. " + std::to_string(vocab - 1); }

bool has_penalties(const SamplingParams& params) {
  return params.penalty_last_n != 0 &&
         (params.repeat_penalty != 1.0 || params.frequency_penalty != 0.0 ||
          params.presence_penalty != 0.0);
}

[[noreturn]] void throw_invalid(const float* logits, size_t vocab) {
  for (size_t id = 0; id < vocab; ++id) {
    if (logits[id] != logits[id] || logits[id] == kInfinity) {
      throw InvalidLogits("logit of token " + std::to_string(id) + " is " +
                          (logits[id] == kInfinity ? "+inf" : "NaN") +
                          " after penalties and bias; the row cannot be sampled");
    }
  }
  throw InvalidLogits("all " + std::to_string(vocab) +
                      " logits are -inf after penalties and bias; no token is possible");
}

int32_t first_at(const float* logits, size_t vocab, const std::vector<float>& maxima, float best) {
  const size_t block =
      static_cast<size_t>(std::find(maxima.begin(), maxima.end(), best) - maxima.begin());
  const float* const begin = logits + block * kLogitBlock;
  return static_cast<int32_t>(std::find(begin, logits + vocab, best) - logits);
}

}  // namespace

Sampler::Sampler(SamplingParams params, size_t vocab)
    : params_(std::move(params)),
      vocab_(vocab),
      penalizes_(has_penalties(params_)),
      // The clamp keeps 0 and -inf times this factor what they are.
      inverse_temperature_(
          static_cast<float>(1.0 / std::min(std::max(params_.temperature, 1e-30), 1e30))),
      window_(penalizes_ ? params_.penalty_last_n : 0) {
  if (vocab_ == 0 || vocab_ > kMaxVocab) {
    throw std::invalid_argument("n_vocab is " + std::to_string(vocab_) + ", must be 1 .. " +
                                std::to_string(kMaxVocab));
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    if (outside(token, vocab_)) {
      throw std::invalid_argument("logit_bias names token " + std::to_string(token) + ", must be " +
                                  range(vocab_));
    }
  }
}

void Sampler::extend(const int32_t* tokens, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (outside(tokens[i], vocab_)) {
      throw std::invalid_argument("token " + std::to_string(tokens[i]) + " at index " +
                                  std::to_string(i) + " is outside the vocabulary, must be " +
                                  range(vocab_));
    }
  }
  for (size_t i = 0; i < count; ++i) window_.push(tokens[i]);
  length_ += count;
}

void Sampler::truncate(uint64_t length) {
  if (length > length_) throw std::invalid_argument("no such history length");
  for (; length_ > length; --length_) window_.pop();
}

int32_t Sampler::sample(const float* row, uint64_t position) {
  const float* const logits = adjusted(row);
  const bool has_nan = block_maxima(logits, vocab_, &maxima_);
  const float best = *std::max_element(maxima_.begin(), maxima_.end());
  if (has_nan || best == kInfinity || best == -kInfinity) throw_invalid(logits, vocab_);

  int32_t token;
  if (params_.temperature <= 0.0) {
    token = first_at(logits, vocab_, maxima_, best);
  } else {
    shortlist_.start(logits, vocab_, maxima_, best, inverse_temperature_);
    shortlist_.keep_top_k(static_cast<size_t>(params_.top_k));
    shortlist_.keep_top_p(params_.top_p);
    shortlist_.keep_min_p(params_.min_p);
    token = shortlist_.draw(uniform53(params_.seed, position));
  }
  return token;
}

// The row itself, or a copy of it where penalties or a bias have to be written.
const float* Sampler::adjusted(const float* row) {
  if (params_.logit_bias.empty() && window_.counts().empty()) return row;
  logits_.assign(row, row + vocab_);
  penalize();
  for (const auto& [token, bias] : params_.logit_bias) {
    logits_[token] = static_cast<float>(logits_[token] + bias);
  }
  return logits_.data();
}

// The semantics of llama.cpp's penalties sampler.
void Sampler::penalize() {
  for (const auto& [token, count] : window_.counts()) {
    double logit = logits_[token];
    logit = logit > 0.0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= count * params_.frequency_penalty + params_.presence_penalty;
    logits_[token] = static_cast<float>(logit);
  }
}

}  // namespace maglio

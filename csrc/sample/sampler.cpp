#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
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

size_t checked_size(size_t vocab) {
  if (vocab == 0 || vocab > kMaxVocab) {
    throw std::invalid_argument("n_vocab is " + std::to_string(vocab) + ", must be 1 .. " +
                                std::to_string(kMaxVocab));
  }
  return vocab;
}

bool counts_window(const SamplingParams& params) {
  return params.penalty_last_n != 0 && params.repeat_penalty != 1.0;
}

bool counts_answer(const SamplingParams& params) {
  return params.frequency_penalty != 0.0 || params.presence_penalty != 0.0;
}

// By token, whether it is one of `ids`.
std::vector<bool> mask_of(const char* name, const std::vector<int32_t>& ids, size_t vocab) {
  std::vector<bool> mask(vocab, false);
  for (const int32_t id : ids) {
    if (outside(id, vocab)) {
      throw std::invalid_argument(std::string(name) + " names token " + std::to_string(id) +
                                  ", must be " + range(vocab));
    }
    mask[static_cast<size_t>(id)] = true;
  }
  return mask;
}

std::vector<bool> breaks_of(const SamplingParams& params, size_t vocab) {
  std::vector<int32_t> single, all;
  for (const auto& breaker : params.dry_breakers) {
    if (breaker.empty()) throw std::invalid_argument("a sequence in dry_breakers is empty");
    if (breaker.size() == 1) single.push_back(breaker.front());
    all.insert(all.end(), breaker.begin(), breaker.end());
  }
  mask_of("dry_breakers", all, vocab);  // checks them
  std::vector<bool> breaks = mask_of("dry_breakers", single, vocab);
  for (const int32_t id : params.exempt) breaks[static_cast<size_t>(id)] = true;
  return breaks;
}

std::vector<std::vector<int32_t>> sequences_of(const SamplingParams& params) {
  std::vector<std::vector<int32_t>> sequences;
  for (const auto& breaker : params.dry_breakers) {
    if (breaker.size() > 1) sequences.push_back(breaker);
  }
  return sequences;
}

bool does_something(Step step, const SamplingParams& params) {
  switch (step) {
    case Step::kTemperature:
      return params.temperature != 1.0;
    case Step::kTopNSigma:
      return params.top_n_sigma > 0.0;
    case Step::kTopK:
      return params.top_k > 0;
    case Step::kTypicalP:
      return params.typical_p < 1.0;
    case Step::kTopP:
      return params.top_p < 1.0;
    case Step::kMinP:
      return params.min_p > 0.0;
    case Step::kXtc:
      return params.xtc_probability > 0.0;
    default:
      return true;
  }
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
      vocab_(checked_size(vocab)),
      // The clamp keeps 0 and -inf times this factor what they are.
      inverse_temperature_(
          static_cast<float>(1.0 / std::min(std::max(params_.temperature, 1e-30), 1e30))),
      exempt_(mask_of("exempt", params_.exempt, vocab_)),
      dry_(params_.dry, breaks_of(params_, vocab_), sequences_of(params_)),
      history_(counts_window(params_) ? params_.penalty_last_n : 0, counts_answer(params_),
               dry_.active()) {
  for (const auto& [token, bias] : params_.logit_bias) {
    if (outside(token, vocab_)) {
      throw std::invalid_argument("logit_bias names token " + std::to_string(token) + ", must be " +
                                  range(vocab_));
    }
  }
  for (const Step step : params_.order) {
    if (!does_something(step, params_)) continue;
    (step < Step::kTemperature ? on_row_ : on_list_).push_back(step);
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
  for (size_t i = 0; i < count; ++i) history_.push(tokens[i]);
  length_ += count;
}

void Sampler::truncate(uint64_t length) {
  if (length > length_) throw std::invalid_argument("no such history length");
  for (; length_ > length; --length_) history_.pop();
}

int32_t Sampler::sample(const float* row, uint64_t position, const uint32_t* mask) {
  return choose(adjusted(row, mask), position);
}

bool Sampler::stands(int32_t token, const float* row, uint64_t position, float drift,
                     const uint32_t* mask) {
  if (outside(token, vocab_)) {
    throw std::invalid_argument("token is " + std::to_string(token) + ", must be " + range(vocab_));
  }
  if (!(drift >= 0.0f)) throw std::invalid_argument("drift must be a number from 0 on");
  const float* const logits = adjusted(row, mask);
  const float reach = drift * stretch();
  if (reach == 0.0f) return choose(logits, position) == token;
  if (reach == kInfinity) return false;
  if (params_.temperature <= 0.0) return leads(token, logits, 2.0f * reach);
  for (const Drift way : {Drift::kBefore, Drift::kAfter, Drift::kBehind}) {
    if (choose(drifted(token, logits, reach, way), position) != token) return false;
  }
  return true;
}

// The token that adjusted logits give.
int32_t Sampler::choose(const float* logits, uint64_t position) {
  const bool has_nan = block_maxima(logits, vocab_, &maxima_);
  const float best = *std::max_element(maxima_.begin(), maxima_.end());
  if (has_nan || best == kInfinity || best == -kInfinity) throw_invalid(logits, vocab_);
  if (params_.temperature <= 0.0) return first_at(logits, vocab_, maxima_, best);
  shortlist_.start(logits, vocab_, maxima_, best);
  for (const Step step : on_list_) apply(step, position);
  return shortlist_.draw(uniform53(params_.seed, position));
}

// Whether all other logits are further than `distance` below that of `token`.
bool Sampler::leads(int32_t token, const float* logits, float distance) const {
  const float bound = logits[token] - distance;
  for (size_t id = 0; id < vocab_; ++id) {
    if (!(logits[id] < bound) && id != static_cast<size_t>(token)) return false;
  }
  return true;
}

// `logits`, each moved by at most `reach`, the rivals of `token` by a little more where they have
// to come to lie after it.
const float* Sampler::drifted(int32_t token, const float* logits, float reach, Drift drift) {
  const float own = logits[token];
  const float low = own - reach;
  const float below = std::nextafter(low, -kInfinity);
  drifted_.resize(vocab_);
  for (size_t id = 0; id < vocab_; ++id) {
    const float logit = logits[id];
    const bool is_near = std::abs(logit - own) <= 2.0f * reach;
    switch (drift) {
      case Drift::kBefore:
        drifted_[id] = logit > own || is_near ? logit + reach : logit - reach;
        break;
      case Drift::kAfter:
        drifted_[id] = is_near ? below : logit > own ? logit - reach : logit + reach;
        break;
      case Drift::kBehind:
        drifted_[id] = logit > own ? logit - reach : logit + reach;
        break;
    }
  }
  drifted_[static_cast<size_t>(token)] = drift == Drift::kBehind ? own + reach : low;
  return drifted_.data();
}

// How much further penalties can bring two logits apart.
float Sampler::stretch() const {
  if (history_.recent().empty()) return 1.0f;
  return static_cast<float>(std::max(params_.repeat_penalty, 1.0 / params_.repeat_penalty));
}

void Sampler::apply(Step step, uint64_t position) {
  const size_t min_keep = static_cast<size_t>(params_.min_keep);
  switch (step) {
    case Step::kTemperature:
      return shortlist_.set_temperature(inverse_temperature_);
    case Step::kTopNSigma:
      return shortlist_.keep_top_n_sigma(params_.top_n_sigma, min_keep);
    case Step::kTopK:
      return shortlist_.keep_top_k(static_cast<size_t>(params_.top_k));
    case Step::kTypicalP:
      return shortlist_.keep_typical(params_.typical_p, min_keep);
    case Step::kTopP:
      return shortlist_.keep_top_p(params_.top_p, min_keep);
    case Step::kMinP:
      return shortlist_.keep_min_p(params_.min_p, min_keep);
    case Step::kXtc: {
      // Its own stream, so that the number that draws the token does not say whether it was on.
      const uint64_t coin = uniform53(params_.seed, position, RandomStream::kXtc);
      if (static_cast<double>(coin) * 0x1p-53 < params_.xtc_probability) {
        shortlist_.drop_top_choices(params_.xtc_threshold, min_keep);
      }
      return;
    }
    default:
      return;
  }
}

// The row itself, or a copy of it where something has to be written.
const float* Sampler::adjusted(const float* row, const uint32_t* mask) {
  if (params_.logit_bias.empty() && history_.tokens().empty() && mask == nullptr) return row;
  logits_.assign(row, row + vocab_);
  if (mask != nullptr) forbid(mask);
  for (const Step step : on_row_) {
    if (step == Step::kPenalties) penalize();
    if (step == Step::kDry && dry_.active()) dry_.apply(history_.tokens(), logits_.data());
    if (step != Step::kLogitBias) continue;
    for (const auto& [token, bias] : params_.logit_bias) {
      logits_[token] = static_cast<float>(logits_[token] + bias);
    }
  }
  return logits_.data();
}

// -inf stays what it is under penalties and finite biases. A NaN of the engine stays one too.
void Sampler::forbid(const uint32_t* mask) {
  for (size_t word = 0; word < mask_words(vocab_); ++word) {
    const uint32_t bits = mask[word];
    if (bits == ~uint32_t{0}) continue;
    const size_t end = std::min(vocab_, (word + 1) * 32);
    for (size_t id = word * 32; id < end; ++id) {
      const bool allowed = (bits >> (id % 32) & 1) != 0;
      if (!allowed && logits_[id] == logits_[id]) logits_[id] = -kInfinity;
    }
  }
}

void Sampler::penalize() {
  for (const auto& [token, count] : history_.recent()) {
    if (exempt_[static_cast<size_t>(token)]) continue;
    const double logit = logits_[token];
    logits_[token] = static_cast<float>(logit > 0.0 ? logit / params_.repeat_penalty
                                                    : logit * params_.repeat_penalty);
  }
  for (const auto& [token, count] : history_.answer()) {
    if (exempt_[static_cast<size_t>(token)]) continue;
    const double penalty = count * params_.frequency_penalty + params_.presence_penalty;
    logits_[token] = static_cast<float>(logits_[token] - penalty);
  }
}

}  // namespace maglio

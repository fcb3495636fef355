// The sampler and top-k under the sanitizers: random rows of awkward sizes against a full sort.
#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "sample/dry.h"
#include "sample/philox.h"
#include "sample/topk.h"
#include "sample/weight.h"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const size_t kSizes[] = {1, 2, 63, 64, 65, 127, 500, 4096, 20011};

std::vector<float> random_row(size_t size, std::mt19937* random, bool ties) {
  std::normal_distribution<float> logit(0.0f, 3.0f);
  std::vector<float> row(size);
  for (float& z : row) z = ties ? std::round(logit(*random)) : logit(*random);
  for (size_t i = 1; i < size; i += 7) row[i] = -kInfinity;
  return row;
}

std::vector<int32_t> sorted_ids(const std::vector<float>& row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
  return ids;
}

// Sampling at temperature 1 by its definition, with the sorted row.
int32_t slow_sample(const std::vector<float>& row, const maglio::SamplingParams& params,
                    uint64_t position) {
  std::vector<int32_t> ids = sorted_ids(row);
  const auto weight = [&](int32_t id) { return maglio::weight(row[id] - row[ids[0]]); };
  const auto mass = [&] {
    uint64_t sum = 0;
    for (const int32_t id : ids) sum += weight(id);
    return sum;
  };
  if (params.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(params.top_k)));
  if (params.top_p < 1.0) {
    const double needed = std::ceil(params.top_p * static_cast<double>(mass()));
    size_t kept = 0;
    uint64_t sum = 0;
    do sum += weight(ids[kept++]);
    while (static_cast<double>(sum) < needed);
    ids.resize(kept);
  }
  if (params.min_p > 0.0) {
    const double floor = params.min_p * static_cast<double>(maglio::kUnitWeight);
    while (static_cast<double>(weight(ids.back())) < floor) ids.pop_back();
  }
  const uint64_t uniform = maglio::uniform53(params.seed, position);
  uint64_t target = static_cast<uint64_t>(static_cast<unsigned __int128>(uniform) * mass() >> 53);
  size_t i = 0;
  while (weight(ids[i]) <= target) target -= weight(ids[i++]);
  return ids[i];
}

void test_philox() {
  CHECK((maglio::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                            {0xa4093822, 0x299f31d0}) ==
         maglio::PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

void test_samples(std::mt19937* random) {
  for (const size_t size : kSizes) {
    for (const int64_t top_k : {0, 1, 50, 100000}) {
      for (const double top_p : {1.0, 0.9, 0.0}) {
        for (const double min_p : {0.0, 0.02}) {
          const std::vector<float> row = random_row(size, random, top_k == 50);
          maglio::SamplingParams params;
          params.temperature = 1.0;
          params.top_k = top_k;
          params.top_p = top_p;
          params.min_p = min_p;
          params.seed = (*random)();
          maglio::Sampler sampler(params, size);
          for (uint64_t i = 0; i < 3; ++i)
            CHECK(sampler.sample(row.data(), i) == slow_sample(row, params, i));
        }
      }
    }
  }
}

// Every step in orders of all kinds, under the sanitizers: the token is one that is possible.
void test_steps(std::mt19937* random) {
  const std::vector<maglio::Step> filters = {maglio::Step::kTemperature, maglio::Step::kTopNSigma,
                                             maglio::Step::kTopK,        maglio::Step::kTypicalP,
                                             maglio::Step::kTopP,        maglio::Step::kMinP,
                                             maglio::Step::kXtc};
  for (const size_t size : kSizes) {
    for (int round = 0; round < 40; ++round) {
      maglio::SamplingParams params;
      params.order = filters;
      std::shuffle(params.order.begin(), params.order.end(), *random);
      const auto some = [&](double off, double on) { return (*random)() % 2 ? off : on; };
      params.temperature = some(1.0, 1.7);
      params.top_n_sigma = some(0.0, 1.5);
      params.top_k = static_cast<int64_t>(some(0, 50));
      params.typical_p = some(1.0, 0.8);
      params.top_p = some(1.0, 0.9);
      params.min_p = some(0.0, 0.05);
      params.xtc_probability = some(0.0, 0.7);
      params.xtc_threshold = some(0.1, 0.0);
      params.min_keep = static_cast<int64_t>(some(1, 70));
      params.seed = (*random)();
      maglio::Sampler sampler(params, size);
      const std::vector<float> row = random_row(size, random, round % 2 == 0);
      for (uint64_t i = 0; i < 3; ++i) {
        const int32_t token = sampler.sample(row.data(), i);
        CHECK(row[static_cast<size_t>(token)] > -kInfinity);
        CHECK(token == sampler.sample(row.data(), i));
      }
    }
  }
}

// What DRY takes from each token of `history`, by its definition.
std::vector<float> slow_dry(const std::vector<int32_t>& history, const maglio::DryParams& params,
                            int32_t breaker, size_t vocab) {
  const size_t n = history.size();
  std::vector<size_t> longest(vocab, 0);
  for (size_t end = 1; end < n; ++end) {
    size_t length = 0;
    while (length < end && history[n - 1 - length] == history[end - 1 - length] &&
           history[n - 1 - length] != breaker) {
      ++length;
    }
    if (history[end] == breaker) continue;
    size_t& best = longest[static_cast<size_t>(history[end])];
    best = std::max(best, length);
  }
  std::vector<float> row(vocab, 0.0f);
  for (size_t token = 0; token < vocab; ++token) {
    double penalty = params.multiplier;
    const size_t allowed = static_cast<size_t>(params.allowed_length);
    if (longest[token] < allowed) continue;
    for (size_t i = allowed; i < longest[token]; ++i) penalty *= params.base;
    row[token] = static_cast<float>(-penalty);
  }
  return row;
}

void test_dry(std::mt19937* random) {
  constexpr size_t kVocab = 5;
  maglio::DryParams params;
  params.multiplier = 0.5;
  for (const int64_t allowed : {1, 2, 3}) {
    params.allowed_length = allowed;
    std::vector<bool> breaks(kVocab, false);
    breaks[4] = true;
    maglio::Dry dry(params, breaks);
    std::vector<int32_t> history;
    for (int i = 0; i < 300; ++i) {
      std::vector<float> row(kVocab, 0.0f);
      dry.apply(history, row.data());
      CHECK(row == slow_dry(history, params, 4, kVocab));
      history.push_back(static_cast<int32_t>((*random)() % (i % 60 < 50 ? 2 : kVocab)));
      if (i % 37 == 36) history.resize(history.size() / 2);
    }
  }
}

void test_history(std::mt19937* random) {
  for (const int64_t window : {-1, 0, 1, 20}) {
    maglio::SamplingParams params;
    params.frequency_penalty = 0.5;
    params.repeat_penalty = 1.2;
    params.penalty_last_n = window;
    params.dry.multiplier = 0.8;
    params.exempt = {0, 7};
    params.logit_bias = {{3, -kInfinity}, {499, 1.0}};
    maglio::Sampler sampler(params, 500);
    const std::vector<float> row = random_row(500, random, false);
    for (uint64_t i = 0; i < 200; ++i) {
      const int32_t token = sampler.sample(row.data(), i);
      CHECK(token != 3);
      sampler.extend(&token, 1);
      if (i % 50 == 20) sampler.begin_answer(i);
      if (i % 50 == 40) sampler.truncate(sampler.length() - 15);
      sampler.check();
    }
    CHECK(sampler.length() == 200 - 4 * 15);
  }
}

void test_invalid_rows() {
  for (const size_t size : kSizes) {
    maglio::Sampler sampler({}, size);
    for (const float bad : {std::nanf(""), kInfinity}) {
      std::vector<float> row(size, 0.0f);
      row[size - 1] = bad;
      bool thrown = false;
      try {
        sampler.sample(row.data(), 0);
      } catch (const maglio::InvalidLogits&) {
        thrown = true;
      }
      CHECK(thrown);
    }
  }
}

// A token that stands is picked from rows that have drifted, and few stand when all drift far.
void test_stands(std::mt19937* random) {
  for (const double temperature : {0.0, 1.0}) {
    maglio::SamplingParams params;
    params.temperature = temperature;
    params.top_k = 30;
    maglio::Sampler sampler(params, 65);
    size_t standing = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      const std::vector<float> row = random_row(65, random, i % 2 == 0);
      const int32_t token = sampler.sample(row.data(), i);
      CHECK(sampler.stands(token, row.data(), i, 0.0f));
      CHECK(!sampler.stands(token, row.data(), i, kInfinity));
      if (!sampler.stands(token, row.data(), i, 0.05f)) continue;
      ++standing;
      std::uniform_real_distribution<float> away(-0.05f, 0.05f);
      for (int round = 0; round < 20; ++round) {
        std::vector<float> moved = row;
        for (float& logit : moved) logit += away(*random);
        CHECK(sampler.sample(moved.data(), i) == token);
      }
    }
    CHECK(standing > 50 && standing < 200);
  }
}

void test_topk(std::mt19937* random) {
  for (const size_t size : kSizes) {
    for (const size_t count : {size_t{1}, size_t{8}, size}) {
      if (count > size) continue;
      const std::vector<float> row = random_row(size, random, count == 8);
      std::vector<int32_t> expected = sorted_ids(row), ids(count);
      maglio::topk_rows(row.data(), 1, size, count, ids.data());
      expected.resize(count);
      CHECK(ids == expected);
    }
  }
}

}  // namespace

int main() {
  std::mt19937 random(1);
  test_philox();
  test_samples(&random);
  test_steps(&random);
  test_dry(&random);
  test_history(&random);
  test_invalid_rows();
  test_stands(&random);
  test_topk(&random);
  std::puts("sampler_test: ok");
}

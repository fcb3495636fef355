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
            CHECK(sampler.sample(row.data()) == slow_sample(row, params, i));
        }
      }
    }
  }
}

void test_history(std::mt19937* random) {
  for (const int64_t window : {-1, 0, 1, 20}) {
    maglio::SamplingParams params;
    params.frequency_penalty = 0.5;
    params.repeat_penalty = 1.2;
    params.penalty_last_n = window;
    params.logit_bias = {{3, -kInfinity}, {499, 1.0}};
    maglio::Sampler sampler(params, 500);
    const std::vector<float> row = random_row(500, random, false);
    for (int i = 0; i < 200; ++i) {
      const int32_t token = sampler.sample(row.data());
      CHECK(token != 3);
      sampler.accept(&token, 1);
      sampler.check();
    }
    CHECK(sampler.position() == 200 && sampler.history_length() == 200);
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
        sampler.sample(row.data());
      } catch (const maglio::InvalidLogits&) {
        thrown = true;
      }
      CHECK(thrown && sampler.position() == 0);
    }
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
  test_history(&random);
  test_invalid_rows();
  test_topk(&random);
  std::puts("sampler_test: ok");
}

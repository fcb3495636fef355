// Random use of the recycling tables against a plain model of them, for runs under sanitizers.

#include "draft/recycling.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.h"

namespace {

using maglio::Recycling;
using Tokens = std::vector<int32_t>;

std::mt19937& rng() {
  static std::mt19937 generator(20260101);
  return generator;
}

int32_t below(size_t n) { return static_cast<int32_t>(rng()() % n); }

Tokens random_tokens(size_t count, size_t vocab) {
  Tokens out(count);
  for (int32_t& token : out) token = below(vocab);
  return out;
}

Tokens permutation(size_t vocab) {
  Tokens out(vocab);
  for (size_t i = 0; i < vocab; ++i) out[i] = static_cast<int32_t>(i);
  std::shuffle(out.begin(), out.end(), rng());
  return out;
}

Tokens row_of(const Recycling& table, int32_t token) {
  std::array<int32_t, Recycling::kWidth> out;
  const size_t count = table.topk_of(token, out.data());
  return Tokens(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
}

// The rows as lists; pairs are left to the chains, which must follow a pair or a row.
void rows_follow_the_model(size_t vocab, size_t pair_slots) {
  Recycling table(vocab, pair_slots);
  std::map<int32_t, Tokens> model;
  int32_t last = -1;
  for (int step = 0; step < 3000; ++step) {
    if (below(2) == 0) {
      const Tokens tokens = random_tokens(below(4), vocab);
      table.observe(tokens.data(), tokens.size());
      for (const int32_t token : tokens) {
        if (last >= 0) {
          Tokens& row = model[last];
          row.erase(std::remove(row.begin(), row.end(), token), row.end());
          row.insert(row.begin(), token);
          if (row.size() > Recycling::kWidth) row.pop_back();
        }
        last = token;
      }
    } else {
      const size_t rows = below(4);
      const size_t width = below(std::min<size_t>(vocab, 10) + 1);
      const Tokens tokens = random_tokens(rows, vocab);
      Tokens candidates;
      for (size_t i = 0; i < rows; ++i) {
        const Tokens best = permutation(vocab);
        candidates.insert(candidates.end(), best.begin(),
                          best.begin() + static_cast<std::ptrdiff_t>(width));
        if (width == 0) continue;
        model[tokens[i]] =
            Tokens(best.begin(),
                   best.begin() + static_cast<std::ptrdiff_t>(std::min(width, Recycling::kWidth)));
      }
      table.observe_rows(tokens.data(), candidates.data(), rows, width);
    }
    const int32_t token = below(vocab);
    CHECK(row_of(table, token) == model[token]);
    Tokens chain(8);
    chain.resize(table.draft(chain.size(), chain.data()));
    if (pair_slots == 0) {
      int32_t at = last;
      for (const int32_t next : chain) {
        CHECK(model[at].front() == next);
        at = next;
      }
      CHECK(chain.size() == 8 || last < 0 || model[at].empty());
    }
    for (const int32_t next : chain) CHECK(next >= 0 && static_cast<size_t>(next) < vocab);
  }
  CHECK(table.check().empty());
}

template <typename Work>
void refused(Work work) {
  try {
    work();
  } catch (const std::invalid_argument&) {
    return;
  }
  CHECK(!"refused");
}

void bad_input_is_refused() {
  refused([] { Recycling(0, 0); });
  refused([] { Recycling(Recycling::kMaxVocab + 1, 0); });
  refused([] { Recycling(4, 3); });
  refused([] { Recycling(4, 2 * Recycling::kMaxPairSlots); });
  Recycling table(4, 2);
  for (const int32_t bad : {-1, 4}) {
    refused([&] { table.observe(&bad, 1); });
    const int32_t good = 0;
    refused([&] { table.observe_rows(&bad, &good, 1, 1); });
    refused([&] { table.observe_rows(&good, &bad, 1, 1); });
    int32_t out[Recycling::kWidth];
    refused([&] { table.topk_of(bad, out); });
  }
  int32_t out[4];
  CHECK(table.draft(4, out) == 0);
}

}  // namespace

int main() {
  for (const size_t vocab : {1, 3, 12, 300}) {
    for (const size_t slots : {0, 1, 4, 4096}) rows_follow_the_model(vocab, slots);
  }
  bad_input_is_refused();
  std::puts("recycling: ok");
  return 0;
}

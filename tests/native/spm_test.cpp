// Randomised checks of SentencePiece merging against a slow twin, for runs under sanitizers.
#include "text/spm.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

namespace {

using maglio::SpmModel;

std::mt19937 rng(20260103);

std::size_t below(std::size_t n) { return rng() % n; }

// One, two, and four bytes; a character cut short; a stray continuation byte.
const std::vector<std::string> kCharacters = {"a",    "b",   "\xC3\xA9", "\xF0\x9F\x99\x82",
                                              "\xE2", "\x80"};

std::string random_text(std::size_t n) {
  std::string text;
  for (; n > 0; --n) text += kCharacters[below(kCharacters.size())];
  return text;
}

struct Vocabulary {
  std::map<std::string, std::int32_t> ids;
  std::vector<float> scores;
  std::array<std::int32_t, 256> byte_ids{};
  std::unique_ptr<SpmModel> model;
};

Vocabulary random_vocabulary() {
  Vocabulary vocabulary;
  std::string blob;
  std::vector<std::int64_t> offsets = {0};
  for (std::size_t n = 1 + below(12); n > 0; --n) {
    const std::string text = random_text(1 + below(4));
    if (!vocabulary.ids.emplace(text, vocabulary.scores.size()).second) continue;
    blob += text;
    offsets.push_back(static_cast<std::int64_t>(blob.size()));
    vocabulary.scores.push_back(static_cast<float>(below(4)));  // ties on purpose
  }
  for (std::int32_t& id : vocabulary.byte_ids)
    id = static_cast<std::int32_t>(below(offsets.size() - 1));
  vocabulary.model =
      std::make_unique<SpmModel>(blob, offsets, vocabulary.scores, vocabulary.byte_ids);
  return vocabulary;
}

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

// Merges the best pair of all, again and again.
std::vector<std::int32_t> slow_encode(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<std::string> symbols = characters_of(text);
  for (;;) {
    std::size_t best = symbols.size();
    float best_score = -1;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = vocabulary.ids.find(symbols[i] + symbols[i + 1]);
      if (it == vocabulary.ids.end() || vocabulary.scores[it->second] <= best_score) continue;
      best = i;
      best_score = vocabulary.scores[it->second];
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + best + 1);
  }
  std::vector<std::int32_t> ids;
  for (const std::string& symbol : symbols) {
    const auto it = vocabulary.ids.find(symbol);
    if (it != vocabulary.ids.end()) {
      ids.push_back(it->second);
    } else {
      for (unsigned char byte : symbol) ids.push_back(vocabulary.byte_ids[byte]);
    }
  }
  return ids;
}

void ids_are_those_of_the_slow_twin() {
  for (int trial = 0; trial < 20000; ++trial) {
    const Vocabulary vocabulary = random_vocabulary();
    const std::string text = random_text(below(30));
    CHECK(vocabulary.model->encode(text) == slow_encode(vocabulary, text));
  }
}

template <typename Function>
bool refused(Function function) {
  try {
    function();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

void parts_that_do_not_fit_together_are_refused() {
  const std::array<std::int32_t, 256> bytes{};
  std::array<std::int32_t, 256> outside{};
  outside[255] = 2;
  CHECK(!refused([&] { SpmModel("ab", {0, 1, 2}, {1, 1}, bytes); }));
  CHECK(refused([&] { SpmModel("ab", {0, 1, 2}, {1, 1}, outside); }));
  CHECK(refused([&] { SpmModel("ab", {0, 1, 2}, {1, NAN}, bytes); }));
  CHECK(refused([&] { SpmModel("ab", {0, 1, 2}, {1}, bytes); }));
  CHECK(refused([&] { SpmModel("ab", {0, 3, 2}, {1, 1}, bytes); }));
  CHECK(refused([&] { SpmModel("ab", {0, 1, 3}, {1, 1}, bytes); }));
  CHECK(refused([&] { SpmModel("ab", {1, 1, 2}, {1, 1}, bytes); }));
  CHECK(refused([&] { SpmModel("", {}, {}, bytes); }));
}

}  // namespace

int main() {
  ids_are_those_of_the_slow_twin();
  parts_that_do_not_fit_together_are_refused();
  std::puts("spm: ok");
  return 0;
}

// Randomised checks of special-token splitting against a slow twin, for runs under sanitizers.
#include "text/special_tokens.h"

#include <cstdio>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

namespace {

using maglio::Fragment;
using maglio::SpecialToken;
using maglio::SpecialTokens;

std::mt19937 rng(20260102);

std::size_t below(std::size_t n) { return rng() % n; }

std::string random_text(std::size_t length) {
  std::string text;
  while (text.size() < length) text += "ab\n"[below(3)];
  return text;
}

// Cuts one token after the other out of a list of fragments; `tokens` are longest first.
std::vector<Fragment> slow_split(const std::string& text, const std::vector<SpecialToken>& tokens,
                                 bool parse_control) {
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({0, text.size(), -1});
  for (const SpecialToken& token : tokens) {
    if (token.control && !parse_control) continue;
    for (std::size_t i = 0; i < fragments.size(); ++i) {
      const Fragment whole = fragments[i];
      if (whole.token >= 0) continue;
      const std::size_t at = text.substr(0, whole.end).find(token.text, whole.begin);
      if (at == std::string::npos) continue;
      const std::size_t end = at + token.text.size();
      std::size_t left = at, right = end;
      while (token.strips_left && left > whole.begin && text[left - 1] == '\n') --left;
      while (token.strips_right && right < whole.end && text[right] == '\n') ++right;
      std::vector<Fragment> parts;
      if (left > whole.begin) parts.push_back({whole.begin, left, -1});
      parts.push_back({left, right, token.id});
      if (right < whole.end) parts.push_back({right, whole.end, -1});
      fragments.erase(fragments.begin() + i);
      fragments.insert(fragments.begin() + i, parts.begin(), parts.end());
    }
  }
  return fragments;
}

void fragments_are_those_of_the_slow_twin() {
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<SpecialToken> tokens;
    std::set<std::string> texts;
    for (std::size_t length = 6; length > 0; --length) {
      for (std::size_t n = below(3); n > 0; --n) {
        const std::string text = random_text(length);
        if (!texts.insert(text).second) continue;
        const auto id = static_cast<std::int32_t>(tokens.size());
        tokens.push_back({text, id, below(2) == 0, below(3) == 0, below(3) == 0});
      }
    }
    const SpecialTokens special(tokens);
    const std::string text = random_text(below(40));
    const bool parse_control = below(2) == 0;
    CHECK(special.split(text, parse_control) == slow_split(text, tokens, parse_control));
  }
}

void empty_and_repeated_tokens_are_refused() {
  for (const std::string& text : {std::string(), std::string("ab")}) {
    bool refused = false;
    try {
      SpecialTokens({{"ab", 0, false}, {text, 1, false}});
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  fragments_are_those_of_the_slow_twin();
  empty_and_repeated_tokens_are_refused();
  std::puts("special_tokens: ok");
  return 0;
}

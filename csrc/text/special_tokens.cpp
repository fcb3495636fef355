#include "text/special_tokens.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace maglio {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} * 256 + static_cast<unsigned char>(byte);
}

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

}  // namespace

SpecialTokens::SpecialTokens(std::vector<SpecialToken> tokens)
    : tokens_(std::move(tokens)), token_at_{-1} {
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  for (std::size_t i = 0; i < tokens_.size(); ++i) add_to_trie(i);
}

void SpecialTokens::add_to_trie(std::size_t index) {
  const std::string& text = tokens_[index].text;
  if (text.empty()) throw std::invalid_argument("a special token is empty");
  std::uint32_t node = 0;
  for (char byte : text) {
    auto [it, added] = children_.emplace(edge(node, byte), token_at_.size());
    if (added) token_at_.push_back(-1);
    node = it->second;
  }
  if (token_at_[node] >= 0) throw std::invalid_argument("special token given twice: " + text);
  token_at_[node] = static_cast<std::int32_t>(index);
}

std::vector<SpecialTokens::Range> SpecialTokens::find_ranges(std::string_view text,
                                                             bool parse_control) const {
  std::vector<Range> ranges(tokens_.size());
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    std::uint32_t node = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      auto it = children_.find(edge(node, text[i]));
      if (it == children_.end()) break;
      node = it->second;
      const std::int32_t index = token_at_[node];
      if (index < 0 || (tokens_[index].control && !parse_control)) continue;
      ranges[index].first = std::min(ranges[index].first, begin);
      ranges[index].last = begin;
    }
  }
  return ranges;
}

std::vector<Fragment> SpecialTokens::claim(std::string_view text,
                                           const std::vector<Range>& ranges) const {
  std::vector<Fragment> claimed;
  std::vector<bool> taken(text.size(), false);
  for (std::size_t index = 0; index < tokens_.size(); ++index) {
    const auto& [first, last] = ranges[index];
    if (first == std::string_view::npos) continue;
    const auto& [token, id, control, strips_left, strips_right] = tokens_[index];
    std::size_t at = first;
    while (at <= last && (at = text.find(token, at)) != std::string_view::npos) {
      const std::size_t end = at + token.size();
      // Everything claimed so far is one piece with a token at least as long, so an overlap covers
      // one of the ends.
      if (taken[at] || taken[end - 1]) {
        ++at;
        continue;
      }
      std::size_t left = at, right = end;
      const auto is_free = [&](std::size_t i) { return is_space(text[i]) && !taken[i]; };
      while (strips_left && left > 0 && is_free(left - 1)) --left;
      while (strips_right && right < text.size() && is_free(right)) ++right;
      std::fill(taken.begin() + left, taken.begin() + right, true);
      claimed.push_back({left, right, id});
      at = right;
    }
  }
  std::sort(claimed.begin(), claimed.end(),
            [](const Fragment& a, const Fragment& b) { return a.begin < b.begin; });
  return claimed;
}

std::vector<Fragment> SpecialTokens::split(std::string_view text, bool parse_control) const {
  std::vector<Fragment> fragments;
  std::size_t done = 0;
  for (const Fragment& token : claim(text, find_ranges(text, parse_control))) {
    if (token.begin > done) fragments.push_back({done, token.begin, -1});
    fragments.push_back(token);
    done = token.end;
  }
  if (done < text.size()) fragments.push_back({done, text.size(), -1});
  return fragments;
}

}  // namespace maglio

// Splits text at special tokens, before any tokenizer sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace maglio {

// A piece of a text: bytes [begin, end), and the special token they spell, with the white space
// that it takes along (-1: plain text).
struct Fragment {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t token = -1;

  friend bool operator==(const Fragment& a, const Fragment& b) {
    return a.begin == b.begin && a.end == b.end && a.token == b.token;
  }
};

// One special token: its bytes, its id, whether it is matched only on request, and whether white
// space before it and after it is its own.
struct SpecialToken {
  std::string text;
  std::int32_t id = 0;
  bool control = false;
  bool strips_left = false;
  bool strips_right = false;
};

// A set of special tokens. Longer tokens are cut out of the whole text first, as in llama.cpp
// (`tokenizer_st_partition`): a long token wins over a shorter one that begins further left.
class SpecialTokens {
 public:
  // Throws std::invalid_argument if a token is empty or two are equal.
  explicit SpecialTokens(std::vector<SpecialToken> tokens);

  // Cuts `text` into fragments that cover it in order, none of them empty. Tokens marked
  // `control` count only with `parse_control`.
  std::vector<Fragment> split(std::string_view text, bool parse_control) const;

 private:
  // Where the occurrences of one token begin: the first and the last, if there is any.
  struct Range {
    std::size_t first = std::string_view::npos;
    std::size_t last = 0;
  };

  void add_to_trie(std::size_t index);
  std::vector<Range> find_ranges(std::string_view text, bool parse_control) const;
  std::vector<Fragment> claim(std::string_view text, const std::vector<Range>& ranges) const;

  std::vector<SpecialToken> tokens_;                           // longest first
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // node * 256 + byte -> node
  std::vector<std::int32_t> token_at_;                         // node -> index into tokens_, or -1
};

}  // namespace maglio

// FrozenAutomaton: an immutable, compact suffix automaton of a document, and cursors over it.
//
// States are sorted by the length of their longest string, so links lead down and transitions lead
// up; transitions are sorted by token. Everything is int32 in one contiguous body, which is also
// the file format (see index_file.h):
//   tokens[n]  length[s]  link[s]  end[s]  first_edge[s + 1]  edge_token[e]  edge_target[e]
//   count[s], in bytes (small_count.h) filled up to whole words: how often a state's strings occur
//
// Which occurrence a draft follows. Freezing knows the whole document, so it points every state at
// the occurrence whose continuation is likeliest: the token that follows most often (among equals,
// the one whose own continuation lies latest in the document), then likewise token by token. One
// position per state is enough, since each step of that walk agrees with the next.
//
// Evidence counts occurrences in the document; one at its very end is a context that nothing
// followed.
//
// Nothing changes after construction, so any number of cursors and threads may read.
#ifndef MAGLIO_FROZEN_AUTOMATON_H_
#define MAGLIO_FROZEN_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "draft/evidence.h"
#include "draft/place.h"
#include "draft/small_count.h"
#include "draft/suffix_automaton.h"

namespace maglio {

class FrozenAutomaton {
 public:
  struct Sizes {
    int32_t tokens = 0;
    int32_t states = 1;
    int32_t edges = 0;

    size_t body_words() const;
    // What is wrong with the sizes, or an empty string.
    std::string check() const;
  };

  // The tokens that `live` indexes now. Throws std::invalid_argument when it is poisoned,
  // std::bad_alloc when memory runs out.
  static std::shared_ptr<const FrozenAutomaton> freeze(const SuffixAutomaton& live);
  // Indexes `count` tokens. Throws std::invalid_argument on a negative id or on more than
  // SuffixAutomaton::kMaxTokenCap of them.
  static std::shared_ptr<const FrozenAutomaton> build(const int32_t* tokens, size_t count);

  // Throws when a body can no longer be read, as where its file was cut short.
  using Guard = std::function<void()>;

  // Reads a body that `owner` keeps alive, and that `guard`, if there is one, says can be read.
  // Before check() has passed, only check() may be called.
  FrozenAutomaton(const Sizes& sizes, const int32_t* body, std::shared_ptr<const void> owner,
                  Guard guard = {});

  const Sizes& sizes() const { return sizes_; }
  const int32_t* body() const { return tokens_; }
  size_t memory_bytes() const { return sizes_.body_words() * sizeof(int32_t); }

  // The largest id of the document, in linear time; kNone if it is empty.
  int32_t max_token() const;

  // Verifies, in linear time, all that keeps every reader inside the body and every walk finite;
  // returns what is wrong, or an empty string.
  std::string check() const;

  // To be called before the body is read. Throws what the guard throws.
  void guard() const {
    if (guard_) guard_();
  }

  // `state` must be a state, as everywhere below. A body may lie in a file that somebody writes
  // into after check(): whatever it then says, a result is in range and every walk ends.

  // The target of a transition, which lies above `state`, or kNone.
  int32_t step(int32_t state, int32_t token) const;
  int32_t length(int32_t state) const {
    const int32_t length = length_[state];
    return length >= 0 && length <= sizes_.tokens ? length : 0;
  }
  // Lies below `state`; the root's is the root.
  int32_t link(int32_t state) const {
    const int32_t link = link_[state];
    return link >= 0 && link < state ? link : 0;
  }
  // From -1 up to the last position of the document.
  int32_t end(int32_t state) const {
    const int32_t end = end_[state];
    return end >= -1 && end < sizes_.tokens ? end : sizes_.tokens - 1;
  }
  int64_t count(int32_t state) const { return unpack_count(count_[state]); }
  bool has_edges(int32_t state) const { return first_edge_[state] < first_edge_[state + 1]; }
  const int32_t* tokens() const { return tokens_; }

 private:
  std::string check_states() const;
  std::string check_edges() const;

  Sizes sizes_;
  std::shared_ptr<const void> owner_;
  Guard guard_;
  const int32_t* tokens_;
  const int32_t* length_;
  const int32_t* link_;
  const int32_t* end_;
  const int32_t* first_edge_;
  const int32_t* edge_token_;
  const int32_t* edge_target_;
  const uint8_t* count_;
};

// Where one stream stands in a document. Keeps the document's index alive. Not thread-safe. Every
// method throws what the index's guard throws.
class FrozenCursor {
 public:
  explicit FrozenCursor(std::shared_ptr<const FrozenAutomaton> index) : index_(std::move(index)) {}

  // Takes note of the stream's next token. Amortised O(1) steps, each a binary search.
  void advance(int32_t token);
  void advance(const int32_t* tokens, size_t count);

  // Tokens in the longest suffix of the stream that occurs in the document with at least one token
  // after it. (A match at the very end of the document has nothing to draft, so the longest shorter
  // one that has counts instead.)
  int32_t match_length() const { return match().length; }
  // Writes at most `limit` tokens that follow the match in the document, up to its end, and returns
  // their number; at least 1 if limit and match_length() are.
  size_t draft(size_t limit, int32_t* out) const;
  // The same with the evidence for each token.
  size_t draft(size_t limit, int32_t* out, Evidence* evidence) const;
  // The same from where a copy left off, place().next(); 0 tokens where nothing is expected.
  size_t draft_in_place(size_t limit, int32_t* out, Evidence* evidence) const;
  const Place& place() const { return place_; }

 private:
  struct Match {
    int32_t state = 0;
    int32_t length = 0;
  };

  Match match() const;
  Match continued() const;
  void step(int32_t token, size_t upcoming);
  void walk(int32_t token);
  size_t copy(size_t first, size_t limit, int32_t* out) const;
  void weigh_draft(int32_t context, const int32_t* draft, size_t count, Evidence* evidence) const;

  std::shared_ptr<const FrozenAutomaton> index_;
  Match longest_;  // the longest suffix of the stream that occurs in the document at all
  Place place_;
};

}  // namespace maglio

#endif  // MAGLIO_FROZEN_AUTOMATON_H_

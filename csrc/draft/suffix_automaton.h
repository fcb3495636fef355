// SuffixAutomaton: a live index of a token stream, for drafting.
//
// The online suffix automaton (Blumer et al., 1985) over token ids. It answers, after every token:
// how long is the longest suffix of the stream that also occurs ending strictly before the current
// position, and what followed it there.
//
// Why match_length() is exact. The state created for position i stands for the suffixes whose only
// occurrence ends at i; its suffix link leads to the longest suffix that occurs elsewhere too,
// which is the match. So the match needs no cursor of its own: extending walks from the previous
// match by the new token *before* the automaton knows the position, and when that splits the state
// it arrives at, the link goes to the clone.
//
// Which occurrence a draft follows. Every state keeps one end position; every write is the end of a
// true occurrence, always before the position being added:
//   - a state created for position i starts with i;
//   - adding position i writes i - 1 to the states of the stream's suffixes, longest first, down to
//     the one that could already be followed by the new token, and to the kRefreshed after that;
//   - then a clone inherits the position of the state it is split from.
// The draft follows the position kept by the match's state. That is exactly the most recent
// occurrence of the match, unless every later one was passed while the match was so much longer
// that more than kRefreshed repeated contexts lie between the two (on measured text and code, less
// than one match in a thousand); then it is the most recent one not so hidden. The exactly most
// recent one in every case would cost O(depth) or a dynamic tree; this costs O(1) amortised on any
// stream: the steps of the classical construction plus a constant.
//
// How often a context occurred. count_contexts() brings the counts of all strings of up to kCounted
// tokens up to date, at the price of at most kCounted steps per token that came since: it follows
// the stream with a cursor kCounted tokens deep and adds one along its suffix links. Counts may lag
// behind the structure, because a clone takes over a count: the strings of a state that is split
// had the same occurrences until then. States without a string that short keep no count.
//
// place() follows a stream that copies from its own past (place.h), so a draft can go on where the
// copy left off as well.
//
// Memory is bounded by `token_cap`. An append to a full index first rebuilds it from the last
// quarter of its tokens, at the price of that many appends; matches then reach only into the kept
// tail. Nothing else takes longer than the amortised bound except growing a large transition table.
//
// A failed append (std::bad_alloc) empties and poisons the index: it answers 0 for ever and ignores
// what is appended. Not thread-safe.
#ifndef MAGLIO_SUFFIX_AUTOMATON_H_
#define MAGLIO_SUFFIX_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "draft/edge_blocks.h"
#include "draft/evidence.h"
#include "draft/place.h"
#include "draft/pod_array.h"

namespace maglio {

class SuffixAutomaton {
 public:
  static constexpr int32_t kMinTokenCap = 4;
  static constexpr int32_t kMaxTokenCap = 1 << 26;  // positions, states and edges fit int32
  static constexpr int32_t kDefaultTokenCap = 1 << 22;
  static constexpr int kRefreshed = 8;
  static constexpr int32_t kCounted = 16;

  struct State {
    int32_t length;  // of its longest string
    int32_t link;    // suffix link; kNone at the root
    int32_t end;     // where an occurrence ends, see above
    int32_t count;   // how often its strings occur, see above
    EdgeSet edges;
  };

  // Throws std::invalid_argument unless kMinTokenCap <= token_cap <= kMaxTokenCap.
  explicit SuffixAutomaton(int32_t token_cap = kDefaultTokenCap);

  // Adds a token. Throws std::invalid_argument on a negative one, changing nothing; throws
  // std::bad_alloc or std::length_error when memory or offsets run out, poisoning the index.
  void append(int32_t token);
  void extend(const int32_t* tokens, size_t count);

  // Tokens in the longest suffix of the indexed stream that also occurs earlier in it.
  int32_t match_length() const;
  // Writes at most `limit` tokens that followed the match's earlier occurrence, and returns their
  // number (0 without a match). The earlier occurrence may reach up to the stream's end; the draft
  // then goes on with its own first tokens, as a stream with that period would.
  size_t draft(size_t limit, int32_t* out) const;
  // The same with the evidence for each token, counting contexts of fewer than kCounted tokens.
  size_t draft(size_t limit, int32_t* out, Evidence* evidence);
  // The same from where a copy left off, place().next(); 0 tokens where nothing is expected.
  size_t draft_in_place(size_t limit, int32_t* out, Evidence* evidence);
  const Place& place() const { return place_; }
  // Where that occurrence ends, counted from the oldest indexed token; kNone without a match.
  int32_t match_end() const;

  bool poisoned() const { return poisoned_; }
  int64_t total_tokens() const { return total_; }  // ever appended
  int32_t indexed_tokens() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t token_cap() const { return token_cap_; }
  // Tokens that the next weighed draft counts first.
  int32_t uncounted_tokens() const { return poisoned_ ? 0 : indexed_tokens() - counted_; }
  size_t state_count() const { return states_.size(); }
  size_t transition_count() const { return transitions_; }
  size_t memory_bytes() const;

  // Verifies the structure in linear time; returns what is wrong, or an empty string.
  std::string check() const;

  // Read access for freezing.
  const int32_t* tokens() const { return tokens_.data(); }
  const State& state(size_t index) const { return states_[index]; }
  int32_t step(int32_t state, int32_t token) const {
    return blocks_.find(states_[state].edges, token);
  }
  const EdgeBlocks& blocks() const { return blocks_; }

 private:
  void add(int32_t token, size_t upcoming);
  void link_position(int32_t position);
  int32_t split(int32_t from, int32_t token, int32_t target);
  void count_contexts();
  // What `limit` tokens from position `first` on are, going on past the end as a period would.
  void copy(size_t first, size_t limit, int32_t* out) const;
  // `context` are the last `length` tokens of the stream.
  void weigh_draft(int32_t context, int32_t length, const int32_t* draft, size_t count,
                   Evidence* evidence) const;
  void prefetch(const int32_t* upcoming) const;
  int32_t new_state(const State& state);
  void start();
  void restart_from_tail();
  void poison();
  std::string check_state(int32_t index, int32_t* transitions) const;
  std::string check_counts() const;

  int32_t token_cap_;
  int64_t total_ = 0;
  bool poisoned_ = false;
  int32_t last_ = 0;  // the state of the whole stream
  size_t transitions_ = 0;
  Place place_;
  int32_t counted_ = 0;          // positions that are counted
  int32_t counting_ = 0;         // the state of the last tokens that are counted,
  int32_t counting_length_ = 0;  // of so many of them
  PodArray<int32_t> tokens_;
  PodArray<State> states_;
  EdgeBlocks blocks_;
};

}  // namespace maglio

#endif  // MAGLIO_SUFFIX_AUTOMATON_H_

#include "draft/frozen_automaton.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace maglio {
namespace {

using Sizes = FrozenAutomaton::Sizes;

// Fills the body of a frozen automaton, section after section.
class Freezer {
 public:
  explicit Freezer(const SuffixAutomaton& live)
      : live_(live),
        sizes_{live.indexed_tokens(), static_cast<int32_t>(live.state_count()),
               static_cast<int32_t>(live.transition_count())},
        body_(std::make_shared<std::vector<int32_t>>(sizes_.body_words())) {
    tokens_ = body_->data();
    length_ = tokens_ + sizes_.tokens;
    link_ = length_ + sizes_.states;
    end_ = link_ + sizes_.states;
    first_edge_ = end_ + sizes_.states;
    edge_token_ = first_edge_ + sizes_.states + 1;
    edge_target_ = edge_token_ + sizes_.edges;
    packed_count_ = reinterpret_cast<uint8_t*>(edge_target_ + sizes_.edges);
  }

  std::shared_ptr<const FrozenAutomaton> freeze() {
    std::copy_n(live_.tokens(), sizes_.tokens, tokens_);
    sort_states();
    write_states();
    write_edges();
    write_counts_and_ends();
    return std::make_shared<const FrozenAutomaton>(sizes_, body_->data(), body_);
  }

 private:
  // Counting sort by length: order_ lists the live states, rank_ is its inverse.
  void sort_states() {
    std::vector<int32_t> start(static_cast<size_t>(sizes_.tokens) + 2, 0);
    for (int32_t v = 0; v < sizes_.states; ++v) ++start[live_.state(v).length + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    order_.resize(sizes_.states);
    rank_.resize(sizes_.states);
    for (int32_t v = 0; v < sizes_.states; ++v) {
      rank_[v] = start[live_.state(v).length]++;
      order_[rank_[v]] = v;
    }
  }

  void write_states() {
    for (int32_t v = 0; v < sizes_.states; ++v) {
      const SuffixAutomaton::State& state = live_.state(order_[v]);
      length_[v] = state.length;
      link_[v] = state.link == kNone ? kNone : rank_[state.link];
    }
  }

  void write_edges() {
    std::vector<Edge> edges;
    int32_t next = 0;
    for (int32_t v = 0; v < sizes_.states; ++v) {
      first_edge_[v] = next;
      edges.clear();
      live_.blocks().for_each(live_.state(order_[v]).edges,
                              [&](const Edge& edge) { edges.push_back(edge); });
      std::sort(edges.begin(), edges.end(),
                [](const Edge& a, const Edge& b) { return a.token < b.token; });
      for (const Edge& edge : edges) {
        edge_token_[next] = edge.token;
        edge_target_[next++] = rank_[edge.target];
      }
    }
    first_edge_[sizes_.states] = next;
  }

  // How often the strings of each state occur.
  std::vector<int32_t> count_occurrences() const {
    std::vector<int32_t> count(sizes_.states, 0);
    int32_t prefix = 0;
    for (int32_t i = 0; i < sizes_.tokens; ++i) {
      prefix = live_.step(prefix, tokens_[i]);
      count[rank_[prefix]] = 1;
    }
    for (int32_t v = sizes_.states - 1; v > 0; --v) count[link_[v]] += count[v];
    return count;
  }

  void write_counts_and_ends() {
    const std::vector<int32_t> count = count_occurrences();
    std::transform(count.begin(), count.end(), packed_count_, pack_count);
    for (int32_t v = sizes_.states - 1; v >= 0; --v) {
      int32_t best = kNone;
      for (int32_t e = first_edge_[v]; e < first_edge_[v + 1]; ++e) {
        const int32_t w = edge_target_[e];
        if (best == kNone || count[w] > count[best] ||
            (count[w] == count[best] && end_[w] > end_[best])) {
          best = w;
        }
      }
      end_[v] = best == kNone ? sizes_.tokens - 1 : end_[best] - 1;
    }
  }

  const SuffixAutomaton& live_;
  const Sizes sizes_;
  std::shared_ptr<std::vector<int32_t>> body_;
  int32_t *tokens_, *length_, *link_, *end_, *first_edge_, *edge_token_, *edge_target_;
  uint8_t* packed_count_;
  std::vector<int32_t> order_, rank_;
};

}  // namespace

size_t FrozenAutomaton::Sizes::body_words() const {
  const size_t n = static_cast<size_t>(tokens);
  const size_t s = static_cast<size_t>(states);
  const size_t e = static_cast<size_t>(edges);
  return n + 3 * s + (s + 1) + 2 * e + (s + 3) / 4;
}

std::string FrozenAutomaton::Sizes::check() const {
  if (tokens < 0 || tokens > SuffixAutomaton::kMaxTokenCap) return "the token count is impossible";
  if (states < 1 || states > 2 * tokens + 1) return "the state count is impossible";
  if (edges < 0 || edges > 3 * tokens) return "the transition count is impossible";
  return "";
}

std::shared_ptr<const FrozenAutomaton> FrozenAutomaton::freeze(const SuffixAutomaton& live) {
  if (live.poisoned()) throw std::invalid_argument("a poisoned index cannot be frozen");
  return Freezer(live).freeze();
}

std::shared_ptr<const FrozenAutomaton> FrozenAutomaton::build(const int32_t* tokens, size_t count) {
  if (count > static_cast<size_t>(SuffixAutomaton::kMaxTokenCap)) {
    throw std::invalid_argument("a document has at most " +
                                std::to_string(SuffixAutomaton::kMaxTokenCap) + " tokens, got " +
                                std::to_string(count));
  }
  SuffixAutomaton live(SuffixAutomaton::kMaxTokenCap);
  live.extend(tokens, count);
  return freeze(live);
}

FrozenAutomaton::FrozenAutomaton(const Sizes& sizes, const int32_t* body,
                                 std::shared_ptr<const void> owner, Guard guard)
    : sizes_(sizes),
      owner_(std::move(owner)),
      guard_(std::move(guard)),
      tokens_(body),
      length_(tokens_ + sizes.tokens),
      link_(length_ + sizes.states),
      end_(link_ + sizes.states),
      first_edge_(end_ + sizes.states),
      edge_token_(first_edge_ + sizes.states + 1),
      edge_target_(edge_token_ + sizes.edges),
      count_(reinterpret_cast<const uint8_t*>(edge_target_ + sizes.edges)) {}

int32_t FrozenAutomaton::max_token() const {
  return sizes_.tokens == 0 ? kNone : *std::max_element(tokens_, tokens_ + sizes_.tokens);
}

int32_t FrozenAutomaton::step(int32_t state, int32_t token) const {
  const int32_t begin = first_edge_[state], end = first_edge_[state + 1];
  if (begin < 0 || end > sizes_.edges || begin >= end) return kNone;
  const int32_t* last = edge_token_ + end;
  const int32_t* found = std::lower_bound(edge_token_ + begin, last, token);
  if (found == last || *found != token) return kNone;
  const int32_t target = edge_target_[found - edge_token_];
  return target > state && target < sizes_.states ? target : kNone;
}

std::string FrozenAutomaton::check() const {
  // In this order: each part relies on the one before.
  std::string problem = sizes_.check();
  if (problem.empty()) problem = check_states();
  if (problem.empty()) problem = check_edges();
  return problem;
}

std::string FrozenAutomaton::check_states() const {
  if (length_[0] != 0 || link_[0] != kNone) return "the root is not the empty string";
  if (first_edge_[0] != 0 || first_edge_[sizes_.states] != sizes_.edges) {
    return "the transitions do not cover their section";
  }
  for (int32_t v = 0; v < sizes_.states; ++v) {
    if (first_edge_[v + 1] < first_edge_[v]) return "transitions overlap";
  }
  for (int32_t v = 0; v < sizes_.states; ++v) {
    if (end_[v] < -1 || end_[v] >= sizes_.tokens) return "an occurrence ends outside the document";
  }
  for (int32_t v = 1; v < sizes_.states; ++v) {
    if (link_[v] < 0 || link_[v] >= v) return "a suffix link leads up";
    if (length_[v] < length_[v - 1] || length_[v] > sizes_.tokens) return "a length is impossible";
    if (length_[link_[v]] >= length_[v]) return "a suffix link leads to no shorter state";
  }
  for (int32_t i = 0; i < sizes_.tokens; ++i) {
    if (tokens_[i] < 0) return "a token id is negative";
  }
  return "";
}

std::string FrozenAutomaton::check_edges() const {
  for (int32_t v = 0; v < sizes_.states; ++v) {
    int32_t previous = kNone;
    for (int32_t e = first_edge_[v]; e < first_edge_[v + 1]; ++e) {
      if (edge_token_[e] <= previous) return "the transitions of a state are not sorted";
      if (edge_target_[e] <= v || edge_target_[e] >= sizes_.states) {
        return "a transition leads down or outside";
      }
      previous = edge_token_[e];
    }
  }
  return "";
}

void FrozenCursor::advance(int32_t token) { advance(&token, 1); }

void FrozenCursor::advance(const int32_t* tokens, size_t count) {
  index_->guard();
  for (size_t i = 0; i < count; ++i) step(tokens[i], count - i - 1);
}

void FrozenCursor::step(int32_t token, size_t upcoming) {
  const Match match = continued();
  const int32_t next = match.length == 0 ? kNone : index_->end(match.state) + 1;
  place_.follow(index_->tokens(), index_->sizes().tokens, token, {next, match.length}, upcoming);
  walk(token);
}

void FrozenCursor::walk(int32_t token) {
  for (;;) {
    const int32_t next = index_->step(longest_.state, token);
    if (next != kNone) {
      longest_ = Match{next, longest_.length + 1};
      return;
    }
    if (longest_.state == 0) return;
    const int32_t shorter = index_->link(longest_.state);
    longest_ = Match{shorter, index_->length(shorter)};
  }
}

FrozenCursor::Match FrozenCursor::match() const {
  index_->guard();
  return continued();
}

// The longest suffix of the stream that occurs with a token after it.
FrozenCursor::Match FrozenCursor::continued() const {
  Match match = longest_;
  while (match.state != 0 && !index_->has_edges(match.state)) {
    match.state = index_->link(match.state);
    match.length = index_->length(match.state);
  }
  return match;
}

size_t FrozenCursor::copy(size_t first, size_t limit, int32_t* out) const {
  const size_t count = std::min(limit, static_cast<size_t>(index_->sizes().tokens) - first);
  std::copy_n(index_->tokens() + first, count, out);
  return count;
}

size_t FrozenCursor::draft(size_t limit, int32_t* out) const {
  const Match found = match();
  if (found.length == 0) return 0;
  return copy(static_cast<size_t>(index_->end(found.state) + 1), limit, out);
}

size_t FrozenCursor::draft(size_t limit, int32_t* out, Evidence* evidence) const {
  const size_t count = draft(limit, out);
  weigh_draft(match().state, out, count, evidence);
  return count;
}

size_t FrozenCursor::draft_in_place(size_t limit, int32_t* out, Evidence* evidence) const {
  index_->guard();
  if (place_.next() == kNone) return 0;
  const size_t count = copy(static_cast<size_t>(place_.next()), limit, out);
  int32_t context = longest_.state;
  while (context != 0 && index_->length(index_->link(context)) >= place_.agreed()) {
    context = index_->link(context);
  }
  weigh_draft(context, out, count, evidence);
  return count;
}

void FrozenCursor::weigh_draft(int32_t context, const int32_t* draft, size_t count,
                               Evidence* evidence) const {
  for (size_t i = 0; i < count; ++i) {
    const int32_t next = index_->step(context, draft[i]);
    // A valid index knows its own text; a file may pass every check and still not.
    evidence[i] = next == kNone ? kOnce : weigh(index_->count(next), index_->count(context));
    if (next != kNone) context = next;
  }
}

}  // namespace maglio

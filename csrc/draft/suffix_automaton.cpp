#include "draft/suffix_automaton.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace maglio {

SuffixAutomaton::SuffixAutomaton(int32_t token_cap) : token_cap_(token_cap) {
  if (token_cap < kMinTokenCap || token_cap > kMaxTokenCap) {
    throw std::invalid_argument("token_cap must lie between " + std::to_string(kMinTokenCap) +
                                " and " + std::to_string(kMaxTokenCap) + ", got " +
                                std::to_string(token_cap));
  }
  start();
}

void SuffixAutomaton::start() {
  states_.shrink(0);
  blocks_.clear();
  transitions_ = 0;
  counted_ = counting_ = counting_length_ = 0;
  last_ = new_state(State{0, kNone, kNone, 0, EdgeSet{}});
}

void SuffixAutomaton::append(int32_t token) { extend(&token, 1); }

void SuffixAutomaton::extend(const int32_t* tokens, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i] < 0) {
      throw std::invalid_argument("token ids are not negative, got " + std::to_string(tokens[i]));
    }
  }
  if (poisoned_) return;
  try {
    for (size_t i = 0; i < count; ++i) {
      if (i + 8 < count) prefetch(tokens + i);
      add(tokens[i], count - i - 1);
    }
  } catch (...) {
    poison();
    throw;
  }
}

// A walk that falls back to the root waits on memory for the root's table, the state it leads to,
// and that state's table. A bulk extend knows its tokens early enough to ask for all three.
void SuffixAutomaton::prefetch(const int32_t* upcoming) const {
  blocks_.prefetch(states_[0].edges, upcoming[8]);
  const int32_t later = step(0, upcoming[4]);
  if (later != kNone) __builtin_prefetch(&states_[later]);
  const int32_t soon = step(0, upcoming[2]);
  if (soon != kNone) blocks_.prefetch(states_[soon].edges, upcoming[3]);
}

void SuffixAutomaton::add(int32_t token, size_t upcoming) {
  if (indexed_tokens() == token_cap_) restart_from_tail();
  const int32_t end = match_end();
  const Place::Match match{end + 1, end == kNone ? 0 : match_length()};
  tokens_.push_back(token);
  place_.follow(tokens_.data(), indexed_tokens(), token, match, upcoming);
  link_position(indexed_tokens() - 1);
  ++total_;
}

void SuffixAutomaton::restart_from_tail() {
  const size_t keep = static_cast<size_t>(token_cap_ / 4);
  std::memmove(tokens_.data(), tokens_.data() + tokens_.size() - keep, keep * sizeof(int32_t));
  place_.drop(indexed_tokens() - static_cast<int32_t>(keep));
  tokens_.shrink(keep);
  start();
  for (size_t i = 0; i < keep; ++i) link_position(static_cast<int32_t>(i));
}

void SuffixAutomaton::poison() {
  poisoned_ = true;
  place_ = Place();
  tokens_.release();
  states_.release();
  blocks_.release();
  transitions_ = 0;
}

int32_t SuffixAutomaton::new_state(const State& state) {
  states_.push_back(state);
  return static_cast<int32_t>(states_.size()) - 1;
}

void SuffixAutomaton::link_position(int32_t position) {
  const int32_t token = tokens_[position];
  const int32_t current = new_state(State{position + 1, kNone, position, 0, EdgeSet{}});
  int32_t visited = last_;
  int32_t target = kNone;
  while (visited != kNone) {
    State& state = states_[visited];
    state.end = position - 1;
    target = blocks_.find(state.edges, token);
    if (target != kNone) break;
    blocks_.add(&state.edges, token, current);
    ++transitions_;
    visited = state.link;
  }
  int32_t link = 0;
  if (visited != kNone) {
    int32_t shorter = states_[visited].link;
    for (int i = 0; i < kRefreshed && shorter != kNone; ++i) {
      states_[shorter].end = position - 1;
      shorter = states_[shorter].link;
    }
    const bool whole = states_[target].length == states_[visited].length + 1;
    link = whole ? target : split(visited, token, target);
  }
  states_[current].link = link;
  last_ = current;
}

// Gives the strings of `target` that are suffixes of (string of `from`) + token their own state.
int32_t SuffixAutomaton::split(int32_t from, int32_t token, int32_t target) {
  State copy = states_[target];
  copy.length = states_[from].length + 1;
  copy.edges = blocks_.copy(copy.edges);
  transitions_ += copy.edges.count();
  const int32_t clone = new_state(copy);
  states_[target].link = clone;
  while (from != kNone && blocks_.find(states_[from].edges, token) == target) {
    blocks_.redirect(&states_[from].edges, token, clone);
    from = states_[from].link;
  }
  return clone;
}

int32_t SuffixAutomaton::match_length() const {
  if (poisoned_ || last_ == 0) return 0;
  return states_[states_[last_].link].length;
}

int32_t SuffixAutomaton::match_end() const {
  return match_length() == 0 ? kNone : states_[states_[last_].link].end;
}

void SuffixAutomaton::copy(size_t first, size_t limit, int32_t* out) const {
  const size_t known = tokens_.size() - first;
  for (size_t i = 0; i < limit; ++i) out[i] = i < known ? tokens_[first + i] : out[i - known];
}

size_t SuffixAutomaton::draft(size_t limit, int32_t* out) const {
  const int32_t end = match_end();
  if (end == kNone) return 0;
  copy(static_cast<size_t>(end) + 1, limit, out);
  return limit;
}

size_t SuffixAutomaton::draft(size_t limit, int32_t* out, Evidence* evidence) {
  const size_t count = draft(limit, out);
  if (count == 0) return 0;
  count_contexts();
  const int32_t context = states_[last_].link;
  weigh_draft(context, states_[context].length, out, count, evidence);
  return count;
}

size_t SuffixAutomaton::draft_in_place(size_t limit, int32_t* out, Evidence* evidence) {
  if (place_.next() == kNone) return 0;
  copy(static_cast<size_t>(place_.next()), limit, out);
  count_contexts();
  const int32_t length = std::min(place_.agreed(), match_length());
  int32_t context = last_ == 0 ? 0 : states_[last_].link;
  while (context != 0 && states_[states_[context].link].length >= length) {
    context = states_[context].link;
  }
  weigh_draft(context, length, out, limit, evidence);
  return limit;
}

// A split may have left the cursor's string to a clone. The state it is at still has strings that
// end at the last counted position, so the step is there; the links then lead to the right state.
void SuffixAutomaton::count_contexts() {
  for (; counted_ < indexed_tokens(); ++counted_) {
    counting_ = step(counting_, tokens_[counted_]);
    counting_length_ = std::min(counting_length_ + 1, kCounted);
    while (states_[states_[counting_].link].length >= counting_length_) {
      counting_ = states_[counting_].link;
    }
    for (int32_t v = counting_; v != 0; v = states_[v].link) ++states_[v].count;
  }
}

void SuffixAutomaton::weigh_draft(int32_t context, int32_t length, const int32_t* draft,
                                  size_t count, Evidence* evidence) const {
  std::fill_n(evidence, count, kOnce);
  int32_t contexts = states_[context].count - 1;  // one of them ends the stream
  for (size_t i = 0; i < count && length < kCounted; ++i, ++length) {
    const int32_t next = step(context, draft[i]);
    if (next == kNone) return;  // the draft has gone on beyond the end of the stream
    evidence[i] = weigh(states_[next].count, contexts);
    context = next;
    contexts = states_[next].count;
  }
}

size_t SuffixAutomaton::memory_bytes() const {
  return sizeof(*this) + tokens_.capacity_bytes() + states_.capacity_bytes() +
         blocks_.memory_bytes();
}

std::string SuffixAutomaton::check_state(int32_t index, int32_t* transitions) const {
  const State& state = states_[index];
  const int32_t count = static_cast<int32_t>(states_.size());
  const std::string name = "state " + std::to_string(index);
  if (index == 0) {
    if (state.length != 0 || state.link != kNone) return "the root is not the empty string";
  } else {
    if (state.link < 0 || state.link >= count) return name + " links out of range";
    if (states_[state.link].length >= state.length) return name + " is no longer than its link";
    if (state.end + 1 < state.length || state.end >= indexed_tokens()) {
      return name + " ends where it cannot occur";
    }
    if (index != last_ && state.end == indexed_tokens() - 1) {
      return name + " ends at the current position";
    }
  }
  if (!blocks_.in_pool(state.edges)) return name + " has transitions outside the pool";
  int32_t seen = 0;
  std::string problem;
  blocks_.for_each(state.edges, [&](const Edge& edge) {
    ++seen;
    if (edge.target <= 0 || edge.target >= count) {
      problem = name + " leads out of range";
    } else if (states_[edge.target].length <= state.length) {
      problem = name + " leads to a shorter state";
    } else if (tokens_[states_[edge.target].end] != edge.token) {
      problem = name + " leads to a state that ends in another token";
    } else if (blocks_.find(state.edges, edge.token) != edge.target) {
      problem = name + " has a transition that cannot be found";
    }
  });
  if (problem.empty() && seen != state.edges.count()) problem = name + " miscounts transitions";
  *transitions += seen;
  return problem;
}

// Follows the stream again and compares how often each string of up to kCounted tokens came.
std::string SuffixAutomaton::check_counts() const {
  std::vector<int32_t> expected(states_.size(), 0);
  int32_t state = 0, length = 0;
  for (int32_t i = 0; i < counted_; ++i) {
    state = step(state, tokens_[i]);
    length = std::min(length + 1, kCounted);
    while (states_[states_[state].link].length >= length) state = states_[state].link;
    for (int32_t v = state; v != 0; v = states_[v].link) ++expected[v];
  }
  for (size_t v = 1; v < states_.size(); ++v) {
    const bool is_counted = states_[states_[v].link].length < kCounted;
    if (is_counted && states_[v].count != expected[v]) {
      return "state " + std::to_string(v) + " is miscounted";
    }
  }
  return "";
}

std::string SuffixAutomaton::check() const {
  if (poisoned_) return "";
  const size_t n = tokens_.size();
  if (n > static_cast<size_t>(token_cap_)) return "more tokens than the cap";
  if (states_.size() > 2 * n + 1) return "more than 2n + 1 states";
  if (transitions_ > 3 * n) return "more than 3n transitions";
  int32_t transitions = 0;
  for (size_t i = 0; i < states_.size(); ++i) {
    const std::string problem = check_state(static_cast<int32_t>(i), &transitions);
    if (!problem.empty()) return problem;
  }
  if (static_cast<size_t>(transitions) != transitions_) return "the transition count is off";
  int32_t state = 0;
  for (size_t i = 0; i < n; ++i) {
    state = step(state, tokens_[i]);
    if (state == kNone || states_[state].length != static_cast<int32_t>(i) + 1) {
      return "prefix " + std::to_string(i + 1) + " has no state of its own";
    }
  }
  if (state != last_) return "the last state is not the whole stream's";
  if (place_.next() >= indexed_tokens()) return "the place lies outside the stream";
  if (place_.next() != kNone && place_.agreed() > 0 &&
      tokens_[place_.next() - 1] != tokens_[n - 1]) {
    return "what comes before the place is not what was said";
  }
  return check_counts();
}

}  // namespace maglio

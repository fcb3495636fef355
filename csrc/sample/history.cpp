#include "sample/history.h"

#include <algorithm>
#include <stdexcept>

namespace maglio {
namespace {

void forget(int32_t token, TokenCounts* counts) {
  const auto found = counts->find(token);
  if (--found->second == 0) counts->erase(found);
}

TokenCounts counted(const std::vector<int32_t>& tokens, size_t begin) {
  TokenCounts counts;
  for (size_t i = begin; i < tokens.size(); ++i) ++counts[tokens[i]];
  return counts;
}

}  // namespace

void History::push(int32_t token) {
  if (!keeps_) return;
  tokens_.push_back(token);
  if (answers_ && tokens_.size() > begin_) ++answer_[token];
  if (window_ == 0) return;
  ++recent_[token];
  const size_t window = static_cast<size_t>(window_);
  if (bounded() && tokens_.size() > window) forget(tokens_[tokens_.size() - 1 - window], &recent_);
}

void History::pop() {
  if (!keeps_) return;
  const int32_t token = tokens_.back();
  if (answers_ && tokens_.size() > begin_) forget(token, &answer_);
  tokens_.pop_back();
  if (window_ == 0) return;
  forget(token, &recent_);
  const size_t window = static_cast<size_t>(window_);
  if (bounded() && tokens_.size() >= window) ++recent_[tokens_[tokens_.size() - window]];
}

void History::begin_answer(size_t index) {
  if (index == begin_) return;
  begin_ = index;
  if (answers_) answer_ = counted(tokens_, begin_);
}

void History::check() const {
  const size_t n = tokens_.size();
  const size_t kept = bounded() ? std::min(n, static_cast<size_t>(window_)) : n;
  const bool recent = recent_ == (window_ == 0 ? TokenCounts{} : counted(tokens_, n - kept));
  const bool answer = answer_ == (answers_ ? counted(tokens_, begin_) : TokenCounts{});
  if (!recent || !answer) throw std::logic_error("History: counts differ from the tokens");
}

}  // namespace maglio

#include "sample/penalty_window.h"

#include <algorithm>
#include <stdexcept>

namespace maglio {

void PenaltyWindow::push(int32_t token) {
  if (size_ == 0) return;
  stream_.push_back(token);
  ++counts_[token];
  const size_t size = static_cast<size_t>(size_);
  if (bounded() && stream_.size() > size) forget(stream_[stream_.size() - 1 - size]);
}

void PenaltyWindow::pop() {
  if (size_ == 0) return;
  forget(stream_.back());
  stream_.pop_back();
  const size_t size = static_cast<size_t>(size_);
  if (bounded() && stream_.size() >= size) ++counts_[stream_[stream_.size() - size]];
}

void PenaltyWindow::forget(int32_t token) {
  const auto found = counts_.find(token);
  if (--found->second == 0) counts_.erase(found);
}

void PenaltyWindow::check() const {
  const size_t n = stream_.size();
  const size_t kept = bounded() ? std::min(n, static_cast<size_t>(size_)) : n;
  std::unordered_map<int32_t, int32_t> counted;
  for (size_t i = n - kept; i < n; ++i) ++counted[stream_[i]];
  if (counted != counts_) {
    throw std::logic_error("PenaltyWindow: counts differ from the window");
  }
}

}  // namespace maglio

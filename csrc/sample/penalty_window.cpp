#include "sample/penalty_window.h"

#include <stdexcept>

namespace maglio {

void PenaltyWindow::push(int32_t token) {
  if (size_ == 0) return;
  ++counts_[token];
  if (size_ < 0) return;
  recent_.push_back(token);
  if (recent_.size() <= static_cast<size_t>(size_)) return;
  const auto oldest = counts_.find(recent_.front());
  if (--oldest->second == 0) counts_.erase(oldest);
  recent_.pop_front();
}

void PenaltyWindow::check() const {
  if (size_ < 0) return;
  std::unordered_map<int32_t, int32_t> counted;
  for (const int32_t token : recent_) ++counted[token];
  if (counted != counts_ || recent_.size() > static_cast<size_t>(size_)) {
    throw std::logic_error("PenaltyWindow: counts differ from the window");
  }
}

}  // namespace maglio

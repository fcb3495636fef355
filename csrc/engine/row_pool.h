// Memory for logits, lent out and taken back.
//
// A row of a large vocabulary is a megabyte; asking the system for it at every step costs more
// than sampling from it. Buffers that come back are kept for the next step.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace maglio {

class RowPool {
 public:
  struct Buffer {
    std::unique_ptr<float[]> data;
    size_t size = 0;
  };

  // A buffer of at least n floats, with any content.
  Buffer take(size_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < free_.size(); ++i) {
      if (free_[i].size < n) continue;
      Buffer buffer = std::move(free_[i]);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      return buffer;
    }
    return {std::unique_ptr<float[]>(new float[n]), n};
  }

  void give_back(Buffer buffer) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() == kKept) {
      // Steps differ in size: the largest buffers serve all of them.
      for (Buffer& kept : free_) {
        if (kept.size < buffer.size) std::swap(kept, buffer);
      }
      return;
    }
    free_.push_back(std::move(buffer));
  }

 private:
  static constexpr size_t kKept = 2;

  std::mutex mutex_;
  std::vector<Buffer> free_;
};

}  // namespace maglio

// A block of memory for weights and caches: zeroed, aligned, committed page by page when touched;
// or a part of memory that belongs to somebody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "platform.h"

namespace maglio {

struct Unmap {
  size_t bytes = 0;
  std::shared_ptr<const void> owner;  // of memory that is not ours
  void operator()(uint8_t* p) const {
    if (!owner) munmap(p, bytes);
  }
};

enum class Pages {
  kHuge,   // where there are any: for what is read from end to end, such as weights
  kSmall,  // for what may stay mostly unused, such as a cache: touching one byte of a huge page
           // zeroes two megabytes
};

class AlignedBuffer {
 public:
  AlignedBuffer() = default;

  AlignedBuffer(size_t bytes, Pages pages) : bytes_(bytes) {
    if (bytes == 0) return;
    // Pages come zeroed and are only committed when they are touched, which lets a cache be as
    // long as the context without costing memory or time before it is used.
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    prefer_huge_pages(p, bytes, pages == Pages::kHuge);
    data_.reset(static_cast<uint8_t*>(p));
    data_.get_deleter().bytes = bytes;
  }

  // Memory that `owner` keeps, and that nobody may write to.
  AlignedBuffer(const uint8_t* data, size_t bytes, std::shared_ptr<const void> owner)
      : data_(const_cast<uint8_t*>(data), Unmap{bytes, std::move(owner)}), bytes_(bytes) {}

  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  std::unique_ptr<uint8_t[], Unmap> data_;
  size_t bytes_ = 0;
};

}  // namespace maglio

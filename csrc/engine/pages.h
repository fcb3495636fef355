// Memory of caches, in pages that several caches may share.
//
// A page holds 64 positions of every layer that owns keys and values. It costs nothing until it is
// touched. Who may write to it follows from how many caches use it: only its single user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/aligned.h"
#include "kernels/kernels.h"

namespace maglio {

// An attention block, so that a query reads one page after the other and no rounding depends on
// where pages begin.
constexpr int kPagePositions = kAttentionBlock;

inline size_t pages_of(int positions) {
  return (static_cast<size_t>(positions) + kPagePositions - 1) / kPagePositions;
}

class PageRef;

// Bytes of pages by where they lie.
using PageSizes = std::unordered_map<uintptr_t, size_t>;

// The bytes that several pools lend together: at most `budget` at a time; 0 stands for no limit.
class Account {
 public:
  explicit Account(size_t budget) : budget_(budget) {}

  size_t budget() const { return budget_; }
  size_t lent() const;
  // Whether they were there to be taken.
  bool take(size_t count, size_t page_bytes);
  void give_back(size_t bytes) noexcept;

 private:
  const size_t budget_;
  mutable std::mutex mutex_;
  size_t lent_ = 0;
};

class PagePool {
 public:
  // What pages are for, and how many that came back are kept for the next borrower: a draft that is
  // rejected just past the border of a page should not cost the faults of a fresh one at every
  // step.
  struct Use {
    const char* what = "KV cache";
    Pages memory = Pages::kSmall;
    size_t kept = 8;
    const char* advice = "";  // what else to do about a lack of memory
  };

  PagePool(size_t page_bytes, std::shared_ptr<Account> account, Use use);
  // A pool with an account of its own.
  PagePool(size_t page_bytes, size_t budget);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // `count` pages with any content, all or none: throws OutOfPages. The pool must outlive them.
  std::vector<PageRef> lend(size_t count);

  size_t page_bytes() const { return page_bytes_; }
  // Of all pages in use, each counted once however many caches share it.
  size_t bytes_lent() const;

 private:
  friend class PageRef;
  struct Page {
    AlignedBuffer memory;
    int users = 0;
  };

  [[noreturn]] void refuse(size_t count) const;
  std::unique_ptr<Page> take();
  void share(Page* page);
  void give_back(Page* page) noexcept;
  bool is_shared(const Page* page) const;

  const size_t page_bytes_;
  const std::shared_ptr<Account> account_;
  const Use use_;
  mutable std::mutex mutex_;
  size_t lent_ = 0;
  std::vector<std::unique_ptr<Page>> free_;
};

// One use of a page. Copying it makes another use of the same page.
class PageRef {
 public:
  PageRef() = default;
  PageRef(const PageRef& other) : pool_(other.pool_), page_(other.page_) {
    if (page_) pool_->share(page_);
  }
  PageRef(PageRef&& other) noexcept : pool_(other.pool_), page_(other.page_) {
    other.page_ = nullptr;
  }
  PageRef& operator=(PageRef other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef() {
    if (page_) pool_->give_back(page_);
  }

  explicit operator bool() const { return page_ != nullptr; }
  uint8_t* data() const { return page_->memory.data(); }
  // Whether others use the page too. Another user may leave at any time, but none can come while
  // the owner of this use makes no copy of it.
  bool is_shared() const { return pool_->is_shared(page_); }
  void list(PageSizes& pages) const {
    if (page_) pages.emplace(reinterpret_cast<uintptr_t>(data()), pool_->page_bytes());
  }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, PagePool::Page* page) : pool_(pool), page_(page) {}

  PagePool* pool_ = nullptr;
  PagePool::Page* page_ = nullptr;
};

}  // namespace maglio

#include "engine/pages.h"

#include <cstdio>
#include <string>
#include <utility>

#include "engine/errors.h"

namespace maglio {
namespace {

std::string megabytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

PagePool::PagePool(size_t page_bytes, size_t budget) : page_bytes_(page_bytes), budget_(budget) {
  free_.reserve(kKept);  // giving back must not fail
}

void PagePool::refuse(size_t count) const {
  const std::string limit =
      budget_ == 0 ? "the system has no more" : "of " + megabytes(budget_) + " available";
  throw OutOfPages("no memory for " + megabytes(count * page_bytes_) +
                   " more of KV cache: " + megabytes(lent_) + " are in use, " + limit +
                   "; close or shorten a sequence, or use a smaller model");
}

std::unique_ptr<PagePool::Page> PagePool::take() {
  if (!free_.empty()) {
    std::unique_ptr<Page> page = std::move(free_.back());
    free_.pop_back();
    return page;
  }
  auto page = std::make_unique<Page>();
  page->memory = AlignedBuffer(page_bytes_, Pages::kSmall);
  return page;
}

std::vector<PageRef> PagePool::lend(size_t count) {
  std::vector<PageRef> loan;
  if (count == 0) return loan;
  std::vector<std::unique_ptr<Page>> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (budget_ > 0 && count > (budget_ - lent_) / page_bytes_) refuse(count);
  loan.reserve(count);
  taken.reserve(count);
  try {
    while (taken.size() < count) taken.push_back(take());
  } catch (const std::bad_alloc&) {
    refuse(count);
  }
  for (std::unique_ptr<Page>& page : taken) {
    page->users = 1;
    loan.push_back(PageRef(this, page.release()));
  }
  lent_ += count * page_bytes_;
  return loan;
}

size_t PagePool::bytes_lent() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lent_;
}

void PagePool::share(Page* page) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++page->users;
}

bool PagePool::is_shared(const Page* page) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return page->users > 1;
}

void PagePool::give_back(Page* page) noexcept {
  std::unique_ptr<Page> surplus;  // unmapped after the lock is gone
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--page->users > 0) return;
  lent_ -= page_bytes_;
  surplus.reset(page);
  if (free_.size() < kKept) free_.push_back(std::move(surplus));
}

}  // namespace maglio

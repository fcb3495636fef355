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

size_t Account::lent() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lent_;
}

bool Account::take(size_t count, size_t page_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (budget_ > 0 && (lent_ > budget_ || count > (budget_ - lent_) / page_bytes)) return false;
  lent_ += count * page_bytes;
  return true;
}

void Account::give_back(size_t bytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  lent_ -= bytes;
}

PagePool::PagePool(size_t page_bytes, std::shared_ptr<Account> account, Use use)
    : page_bytes_(page_bytes), account_(std::move(account)), use_(use) {
  free_.reserve(use_.kept);  // giving back must not fail
}

PagePool::PagePool(size_t page_bytes, size_t budget)
    : PagePool(page_bytes, std::make_shared<Account>(budget), Use()) {}

void PagePool::refuse(size_t count) const {
  const std::string limit = account_->budget() == 0
                                ? "the system has no more"
                                : "of " + megabytes(account_->budget()) + " available";
  throw OutOfPages("no memory for " + megabytes(count * page_bytes_) + " more of " + use_.what +
                   ": " + megabytes(account_->lent()) + " are in use, " + limit +
                   "; close or shorten a sequence, " + use_.advice + "or use a smaller model");
}

std::unique_ptr<PagePool::Page> PagePool::take() {
  if (!free_.empty()) {
    std::unique_ptr<Page> page = std::move(free_.back());
    free_.pop_back();
    return page;
  }
  auto page = std::make_unique<Page>();
  page->memory = AlignedBuffer(page_bytes_, use_.memory);
  return page;
}

std::vector<PageRef> PagePool::lend(size_t count) {
  std::vector<PageRef> loan;
  if (count == 0) return loan;
  std::vector<std::unique_ptr<Page>> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!account_->take(count, page_bytes_)) refuse(count);
  try {
    loan.reserve(count);
    taken.reserve(count);
    while (taken.size() < count) taken.push_back(take());
  } catch (const std::bad_alloc&) {
    account_->give_back(count * page_bytes_);
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
  account_->give_back(page_bytes_);
  surplus.reset(page);
  if (free_.size() < use_.kept) free_.push_back(std::move(surplus));
}

}  // namespace maglio

#include "engine/cache.h"

#include <cstring>
#include <string>
#include <utility>

#include "engine/errors.h"

namespace maglio {
PageLayout::PageLayout(const ModelSpec& spec, CacheType type) : type_(type) {
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec* attention = std::get_if<AttentionSpec>(&layer.mixer);
    if (attention == nullptr || !attention->owns_keys()) {
      parts_.push_back({bytes_, 0, 0});
      continue;
    }
    const size_t tile_bytes = cache_tile_bytes(type, attention->head_width());
    parts_.push_back({bytes_, attention->n_kv_head, tile_bytes});
    bytes_ += 2 * parts_.back().side() * static_cast<size_t>(attention->n_kv_head);
  }
}

void PageLayout::copy(const uint8_t* from, uint8_t* to, int positions) const {
  const size_t tiles = (static_cast<size_t>(positions) + kKeyTile - 1) / kKeyTile;
  for (const Part& part : parts_) {
    for (int side = 0; side < 2 * part.n_kv_head; ++side) {
      const size_t at = part.offset + part.side() * static_cast<size_t>(side);
      std::memcpy(to + at, from + at, tiles * part.tile_bytes);
    }
  }
}

Cache::Cache(std::shared_ptr<const PageLayout> layout, std::shared_ptr<PagePool> pool,
             std::shared_ptr<RecurrentMemory> recurrent, int n_ctx)
    : layout_(std::move(layout)),
      pool_(std::move(pool)),
      n_ctx_(n_ctx),
      recurrent_(std::move(recurrent)),
      states_(recurrent_) {}

Cache::Cache(std::shared_ptr<const PageLayout> layout, std::shared_ptr<PagePool> pool,
             std::shared_ptr<RecurrentMemory> recurrent, int n_ctx, CacheParts parts)
    : layout_(std::move(layout)),
      pool_(std::move(pool)),
      n_ctx_(n_ctx),
      length_(parts.length),
      pages_(std::move(parts.pages)),
      recurrent_(std::move(recurrent)),
      states_(recurrent_, std::move(parts.states)),
      floor_(states_.floor()) {
  for (const PageRef& page : pages_) table_.push_back(page.data());
}

CacheParts Cache::parts() const {
  const auto hold = lock();
  const auto end = pages_.begin() + static_cast<std::ptrdiff_t>(pages_of(length()));
  return {length(), {pages_.begin(), end}, states_.parts()};
}

PageSizes Cache::pages() const {
  const auto hold = lock();
  PageSizes pages;
  for (const PageRef& page : pages_) page.list(pages);
  states_.list(pages);
  return pages;
}

void Cache::check_length(int length) const {
  if (length >= 0 && length <= this->length()) return;
  throw InvalidInput("length is " + std::to_string(length) + ", must be an integer from 0 to " +
                     std::to_string(this->length()));
}

void Cache::keep_pages(size_t pages) {
  if (pages >= pages_.size()) return;
  pages_.resize(pages);
  table_.resize(pages);
}

int Cache::truncate(int length) {
  const auto hold = lock();
  check_length(length);
  const int kept = states_.truncate(this->length(), length);
  floor_.store(states_.floor(), std::memory_order_release);
  length_.store(kept, std::memory_order_release);
  keep_pages(pages_of(kept));
  return kept;
}

std::shared_ptr<Cache> Cache::fork(int length) const {
  const auto hold = lock();
  check_length(length);
  if (length < floor()) {
    throw InvalidInput("length is " + std::to_string(length) + ", and a cache with recurrent " +
                       "layers can be forked at " + std::to_string(floor()) + " to " +
                       std::to_string(this->length()) + "; truncate a fork of it instead");
  }
  auto other = std::make_shared<Cache>(layout_, pool_, recurrent_, n_ctx_);
  other->states_ = states_.fork(this->length(), length);
  other->floor_.store(floor(), std::memory_order_release);
  const auto pages = static_cast<std::ptrdiff_t>(pages_of(length));
  other->pages_.assign(pages_.begin(), pages_.begin() + pages);
  other->table_.assign(table_.begin(), table_.begin() + pages);
  other->length_.store(length, std::memory_order_release);
  return other;
}

void Cache::keep() {
  const auto hold = lock();
  states_.keep();
}

void Cache::extend(int n) {
  states_.settle();
  floor_.store(states_.floor(), std::memory_order_release);
  length_.store(length() + n, std::memory_order_release);
}

void Cache::reserve(int n) {
  const auto hold = lock();
  check_room(n, "");
  std::vector<PageRef> loan = pool_->lend(prepare(n));
  adopt(loan, n);
}

void Cache::check_room(int n, const std::string& where) const {
  if (n >= 0 && n <= n_ctx_ - length()) return;
  throw ContextFull(where + std::to_string(n) + " tokens do not fit: " + std::to_string(length()) +
                    " of the context's " + std::to_string(n_ctx_) +
                    " positions are in use; shorten the input or load the model with a larger "
                    "n_ctx");
}

// Pages past the last position were never shared: a fork takes only what its positions need.
bool Cache::last_is_shared() const {
  return length() % kPagePositions != 0 && pages_[pages_of(length()) - 1].is_shared();
}

size_t Cache::prepare(int n) {
  const size_t needed = pages_of(length() + n);
  pages_.reserve(needed);
  table_.reserve(needed);
  const size_t fresh = needed > pages_.size() ? needed - pages_.size() : 0;
  return fresh + (n > 0 && last_is_shared() ? 1 : 0);
}

void Cache::adopt(std::vector<PageRef>& loan, int n) noexcept {
  const size_t needed = pages_of(length() + n);
  const auto next = [&loan] {
    PageRef page = std::move(loan.back());
    loan.pop_back();
    return page;
  };
  // The other users may have left since the pages were counted; the loan then has one to spare.
  if (n > 0 && last_is_shared()) {
    const size_t last = pages_of(length()) - 1;
    PageRef own = next();
    layout_->copy(pages_[last].data(), own.data(), length() % kPagePositions);
    table_[last] = own.data();
    pages_[last] = std::move(own);
  }
  while (pages_.size() < needed) {
    pages_.push_back(next());
    table_.push_back(pages_.back().data());
  }
}

}  // namespace maglio

#include "sample/shortlist.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sample/block_maxima.h"
#include "sample/candidate.h"
#include "sample/weight.h"

namespace maglio {
namespace {

constexpr size_t kFirstTier = 64;
constexpr size_t kTierGrowth = 8;
constexpr size_t kSortedSpan = 32;
constexpr float kLowest = std::numeric_limits<float>::lowest();

// ceil(share * whole), at least 1 and at most `whole`.
uint64_t share_of(double share, uint64_t whole) {
  const double part = std::ceil(share * static_cast<double>(whole));
  if (part < 1.0) return 1;
  return std::min(part < 0x1p63 ? static_cast<uint64_t>(part) : whole, whole);
}

}  // namespace

void Shortlist::start(const float* logits, size_t size, const std::vector<float>& maxima,
                      float best, float inverse_temperature) {
  logits_ = logits;
  size_ = size;
  maxima_ = &maxima;
  best_ = best;
  inverse_temperature_ = inverse_temperature;
  items_.clear();
  mass_ = 0;
  bound_ = std::numeric_limits<float>::infinity();
  count_ = 0;
  closed_ = false;
}

uint64_t Shortlist::weight_of(float logit) const {
  return weight((logit - best_) * inverse_temperature_);
}

uint64_t Shortlist::row_mass() const {
  uint64_t mass = 0;
  size_t id = 0;
  for (; id + kLogitBlock <= size_; id += kLogitBlock) {
    // Stage by stage and of fixed size, so that each loop compiles to vector code.
    float exponentials[kLogitBlock];
    for (size_t i = 0; i < kLogitBlock; ++i) {
      exponentials[i] = exp_nonpositive((logits_[id + i] - best_) * inverse_temperature_);
    }
    mass += sum_weights(exponentials, kLogitBlock);
  }
  for (; id < size_; ++id) mass += weight_of(logits_[id]);
  return mass;
}

// Adds the tokens below the old bound and down to one that at least `count` tokens reach.
void Shortlist::gather(size_t count) {
  const float above = bound_;
  bound_ = std::max(rank_bound(*maxima_, count, &scratch_), kLowest);
  count_ = count;
  for (size_t block = 0; block < maxima_->size(); ++block) {
    if ((*maxima_)[block] < bound_) continue;
    const size_t end = std::min(size_, (block + 1) * kLogitBlock);
    for (size_t id = block * kLogitBlock; id < end; ++id) {
      const float logit = logits_[id];
      if (logit < bound_ || logit >= above) continue;
      items_.push_back({candidate_key(logit, static_cast<uint32_t>(id)), weight_of(logit)});
      mass_ += items_.back().weight;
    }
  }
}

// Gathers the next tier. Returns false when there is nothing left that may be added.
bool Shortlist::extend() {
  if (closed_ || bound_ == kLowest) return false;
  const size_t next = std::max(kFirstTier, count_ * kTierGrowth), blocks = maxima_->size();
  // Block maxima bound no more ranks than there are blocks: use the last of them before giving up.
  gather(count_ < blocks ? std::min(next, blocks) : next);
  return true;
}

// Cuts the list to its first `size` items: from here on it is the whole row.
void Shortlist::close(size_t size) {
  items_.resize(size);
  mass_ = 0;
  for (const Item& item : items_) mass_ += item.weight;
  closed_ = true;
}

void Shortlist::keep_top_k(size_t k) {
  if (k == 0 || k >= size_) return;
  gather(k);
  if (k < items_.size()) {
    std::nth_element(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(k), items_.end(),
                     [](const Item& a, const Item& b) { return a.key > b.key; });
  }
  close(std::min(k, items_.size()));
}

void Shortlist::keep_top_p(double p) {
  if (p >= 1.0) return;
  const uint64_t needed = share_of(p, closed_ ? mass_ : row_mass());
  while (mass_ < needed && extend()) {
  }
  close(crossing(needed - 1) + 1);
}

void Shortlist::keep_min_p(double p) {
  if (p <= 0.0) return;
  const uint64_t needed = share_of(p, kUnitWeight);
  // Rounding may weigh a smaller logit a hair more, hence the factor.
  while ((items_.empty() || 2 * weight_of(bound_) >= needed) && extend()) {
  }
  const auto kept = std::partition(items_.begin(), items_.end(),
                                   [needed](const Item& item) { return item.weight >= needed; });
  close(static_cast<size_t>(kept - items_.begin()));
}

int32_t Shortlist::draw(uint64_t uniform53) {
  const uint64_t total = closed_ ? mass_ : row_mass();
  const auto target =
      static_cast<uint64_t>(static_cast<unsigned __int128>(uniform53) * total >> 53);
  while (mass_ <= target && extend()) {
  }
  return candidate_id(items_[crossing(target)].key);
}

// The index of the item at which the running weight first exceeds `target` (< mass_), after
// reordering the items so that exactly those before it in the candidate order stand before it.
// Quickselect by weight: halves of the range are split off by rank, only the last span is sorted.
size_t Shortlist::crossing(uint64_t target) {
  const auto better = [](const Item& a, const Item& b) { return a.key > b.key; };
  const auto at = [this](size_t index) {
    return items_.begin() + static_cast<std::ptrdiff_t>(index);
  };
  size_t low = 0, high = items_.size();
  while (high - low > kSortedSpan) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(at(low), at(middle), at(high), better);
    uint64_t upper = 0;
    for (size_t i = low; i < middle; ++i) upper += items_[i].weight;
    if (target < upper) {
      high = middle;
    } else {
      target -= upper;
      low = middle;
    }
  }
  std::sort(at(low), at(high), better);
  while (items_[low].weight <= target) target -= items_[low++].weight;
  return low;
}

}  // namespace maglio

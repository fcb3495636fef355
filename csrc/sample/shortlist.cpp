#include "sample/shortlist.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sample/block_maxima.h"
#include "sample/candidate.h"
#include "sample/mass.h"
#include "sample/weight.h"

namespace maglio {
namespace {

constexpr size_t kFirstTier = 64;
constexpr size_t kTierGrowth = 8;
constexpr size_t kSortedSpan = 32;
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kFarBelow =
    1024.0f;  // logits further below the best count as so far, in deviations
constexpr double kLogitUnits = 0x1p12;
constexpr float kImprobable = 64.0f;  // as in weight.h
constexpr double kSurpriseUnits = 0x1p20;

// ceil(share * whole), at least 1 and at most `whole`.
uint64_t share_of(double share, uint64_t whole) {
  const double part = std::ceil(share * static_cast<double>(whole));
  if (part < 1.0) return 1;
  return std::min(part < 0x1p63 ? static_cast<uint64_t>(part) : whole, whole);
}

uint64_t rounded(double x) { return static_cast<uint64_t>(x + 0.5); }

}  // namespace

void Shortlist::start(const float* logits, size_t size, const std::vector<float>& maxima,
                      float best) {
  logits_ = logits;
  size_ = size;
  maxima_ = &maxima;
  best_ = best;
  inverse_temperature_ = 1.0f;
  items_.clear();
  mass_ = 0;
  bound_ = std::numeric_limits<float>::infinity();
  count_ = 0;
  closed_ = false;
}

void Shortlist::set_temperature(float inverse_temperature) {
  inverse_temperature_ = inverse_temperature;
  reweigh();
}

float Shortlist::logit_of(const Item& item) const {
  return logits_[static_cast<size_t>(candidate_id(item.key))];
}

uint64_t Shortlist::weight_of(float logit) const {
  return weight((logit - best_) * inverse_temperature_);
}

uint64_t Shortlist::row_mass() const {
  return maglio::row_mass(logits_, size_, best_, inverse_temperature_);
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

void Shortlist::gather_all() {
  while (extend()) {
  }
  closed_ = true;
}

// Cuts the list to its first `size` items: from here on it is the whole row.
void Shortlist::close(size_t size) {
  items_.resize(size);
  mass_ = 0;
  for (const Item& item : items_) mass_ += item.weight;
  closed_ = true;
}

// Cuts the list to its first `kept` items, or if these are too few to the `min_keep` with the
// largest keys. The first ones must be those with the largest keys wherever they are more.
void Shortlist::close_with(size_t kept, size_t min_keep) {
  if (kept < min_keep) {
    while (items_.size() < min_keep && extend()) {
    }
    kept = std::min(min_keep, items_.size());
    std::nth_element(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(kept - 1),
                     items_.end(), [](const Item& a, const Item& b) { return a.key > b.key; });
  }
  close(kept);
}

void Shortlist::reweigh() {
  mass_ = 0;
  for (Item& item : items_) {
    item.weight = weight_of(logit_of(item));
    mass_ += item.weight;
  }
}

// Weighs anew after the best tokens were dropped from a closed list.
void Shortlist::rebase() {
  const auto best = std::max_element(items_.begin(), items_.end(),
                                     [](const Item& a, const Item& b) { return a.key < b.key; });
  if (logit_of(*best) == best_) return;
  best_ = logit_of(*best);
  reweigh();
}

void Shortlist::keep_top_k(size_t k) {
  if (k == 0 || k >= size_) return;
  if (!closed_) gather(k);
  if (k < items_.size()) {
    std::nth_element(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(k), items_.end(),
                     [](const Item& a, const Item& b) { return a.key > b.key; });
  }
  close(std::min(k, items_.size()));
}

void Shortlist::keep_top_p(double p, size_t min_keep) {
  if (p >= 1.0) return;
  const uint64_t needed = share_of(p, closed_ ? mass_ : row_mass());
  while (mass_ < needed && extend()) {
  }
  close_with(crossing(needed - 1) + 1, min_keep);
}

void Shortlist::keep_min_p(double p, size_t min_keep) {
  if (p <= 0.0) return;
  const uint64_t needed = share_of(p, kUnitWeight);
  // Rounding may weigh a smaller logit a hair more, hence the factor.
  while ((items_.empty() || 2 * weight_of(bound_) >= needed) && extend()) {
  }
  const auto kept = std::partition(items_.begin(), items_.end(),
                                   [needed](const Item& item) { return item.weight >= needed; });
  close_with(static_cast<size_t>(kept - items_.begin()), min_keep);
}

// The standard deviation of the logits left. Sums of integers, so that their order does not matter.
double Shortlist::deviation() const {
  uint64_t count = 0, sum = 0, squares = 0;  // 2^20 tokens of at most 2^44 fit
  const auto add = [&](float logit) {
    const uint64_t below =
        rounded(static_cast<double>(std::min(best_ - logit, kFarBelow)) * kLogitUnits);
    ++count;
    sum += below;
    squares += below * below;
  };
  if (closed_) {
    for (const Item& item : items_) add(logit_of(item));
  } else {
    for (size_t id = 0; id < size_; ++id) {
      if (logits_[id] >= kLowest) add(logits_[id]);
    }
  }
  using Wide = unsigned __int128;
  const Wide variance = static_cast<Wide>(count) * squares - static_cast<Wide>(sum) * sum;
  return std::sqrt(static_cast<double>(variance)) / (static_cast<double>(count) * kLogitUnits);
}

void Shortlist::keep_top_n_sigma(double n, size_t min_keep) {
  if (n <= 0.0) return;
  const double most = n * deviation();
  const auto near = [&](float logit) { return static_cast<double>(best_ - logit) <= most; };
  while ((items_.empty() || near(bound_)) && extend()) {
  }
  const auto kept = std::partition(items_.begin(), items_.end(),
                                   [&](const Item& item) { return near(logit_of(item)); });
  close_with(static_cast<size_t>(kept - items_.begin()), min_keep);
}

// The surprise of a token is -log p, its expectation the entropy. Both hold the logarithm of the
// mass, which cancels in their difference: what is compared is how far below the best a logit lies.
void Shortlist::keep_typical(double p, size_t min_keep) {
  if (p >= 1.0) return;
  gather_all();
  const auto below = [this](const Item& item) {
    const float x = (best_ - logit_of(item)) * inverse_temperature_;
    return rounded(static_cast<double>(std::min(x, kImprobable)) * kSurpriseUnits);
  };
  unsigned __int128 sum = 0;
  for (const Item& item : items_) {
    sum += static_cast<unsigned __int128>(item.weight) * below(item);
  }
  const uint64_t expected = static_cast<uint64_t>(sum / mass_);
  // For a while the largest keys are the most typical tokens, ties to the lowest id.
  for (Item& item : items_) {
    const uint64_t surprise = below(item);
    const uint64_t distance = surprise > expected ? surprise - expected : expected - surprise;
    item.key = static_cast<uint64_t>(~static_cast<uint32_t>(distance)) << 32 |
               static_cast<uint32_t>(item.key);
  }
  close_with(crossing(share_of(p, mass_) - 1) + 1, min_keep);
  for (Item& item : items_) {
    item.key = candidate_key(logit_of(item), static_cast<uint32_t>(candidate_id(item.key)));
  }
  rebase();
}

void Shortlist::drop_top_choices(double threshold, size_t min_keep) {
  const uint64_t needed = share_of(threshold, closed_ ? mass_ : row_mass());
  while ((items_.empty() || 2 * weight_of(bound_) >= needed) && extend()) {
  }
  const auto is_top = [needed](const Item& item) { return item.weight >= needed; };
  if (std::count_if(items_.begin(), items_.end(), is_top) < 2) return;
  gather_all();
  const auto end = std::partition(items_.begin(), items_.end(), is_top);
  const auto last = std::min_element(items_.begin(), end,
                                     [](const Item& a, const Item& b) { return a.key < b.key; });
  const size_t dropped = static_cast<size_t>(end - items_.begin()) - 1;
  if (items_.size() - dropped < min_keep) return;
  std::iter_swap(last, end - 1);
  items_.erase(items_.begin(), end - 1);
  close(items_.size());
  rebase();
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

#include "engine/recurrent.h"

#include <algorithm>
#include <utility>

namespace maglio {
namespace {

// Rows of a state's page begin where vectors are aligned.
size_t aligned(size_t floats) { return (floats + 15) / 16 * 16; }

int taps_of(const AttentionSpec&) { return 0; }
template <typename Spec>
int taps_of(const Spec& spec) {
  return spec.n_taps;
}

size_t input_of(const AttentionSpec&) { return 0; }
template <typename Spec>
size_t input_of(const Spec& spec) {
  return static_cast<size_t>(spec.input_width());
}

size_t state_of(const AttentionSpec&) { return 0; }
template <typename Spec>
size_t state_of(const Spec& spec) {
  return static_cast<size_t>(spec.state_size());
}

float* floats(const PageRef& page) { return reinterpret_cast<float*>(page.data()); }

PageRef next(std::vector<PageRef>& loan) {
  PageRef page = std::move(loan.back());
  loan.pop_back();
  return page;
}

// Whether a page is there and nobody else's.
bool is_own(const PageRef& page) { return page && !page.is_shared(); }

}  // namespace

RecurrentLayout::RecurrentLayout(const ModelSpec& spec) {
  for (const LayerSpec& layer : spec.layers) {
    states_.push_back(state_size_);
    rows_.push_back(row_size_);
    std::visit(
        [this](const auto& mixer) {
          state_size_ += aligned(state_of(mixer));
          widths_.push_back(input_of(mixer));
          row_size_ += aligned(input_of(mixer));
          tail_ = std::max(tail_, taps_of(mixer) - 1);
        },
        layer.mixer);
  }
}

// States are read and written from end to end, a page or two per cache; rows come and go by the
// length of a draft.
RecurrentMemory::RecurrentMemory(const ModelSpec& spec, const std::shared_ptr<Account>& account)
    : layout(spec),
      states(layout.state_bytes(), account, {"recurrent states", Pages::kHuge, 1}),
      rows(layout.row_bytes(), account, {"inputs of recurrent layers", Pages::kSmall, 32}) {}

States::States(std::shared_ptr<RecurrentMemory> memory, StateParts parts)
    : memory_(std::move(memory)),
      floor_(parts.floor),
      start_(std::move(parts.state)),
      first_row_(first_needed(parts.floor)),
      rows_(std::move(parts.rows)) {}

void States::list(PageSizes& pages) const {
  start_.list(pages);
  end_.list(pages);
  for (const PageRef& row : rows_) row.list(pages);
  for (const Place& place : places_) {
    place.state.list(pages);
    for (const PageRef& row : place.tail) row.list(pages);
  }
}

int States::first_needed(int floor) const { return std::max(0, floor - memory_->layout.tail()); }

int States::truncate(int held, int length) {
  if (memory_->layout.empty() || length == held) return length;
  end_holds_ = false;
  if (length >= floor_) {
    rows_.resize(static_cast<size_t>(length - first_row_));
    return length;
  }
  while (!places_.empty() && places_.back().position > length) places_.pop_back();
  end_ = {};
  if (places_.empty()) {
    floor_ = first_row_ = 0;
    start_ = {};
    rows_.clear();
    return 0;
  }
  const Place& place = places_.back();
  rows_ = place.tail;
  start_ = place.state;
  floor_ = place.position;
  first_row_ = first_needed(floor_);
  return floor_;
}

States States::fork(int held, int length) const {
  States other(memory_);
  if (memory_->layout.empty()) return other;
  other.floor_ = floor_;
  other.start_ = start_;
  other.end_holds_ = end_holds_ && length == held;
  if (other.end_holds_) other.end_ = end_;
  other.first_row_ = first_row_;
  other.rows_.assign(rows_.begin(), rows_.begin() + (length - first_row_));
  other.places_ = places_;
  return other;
}

void States::keep() {
  if (floor_ == 0 || (!places_.empty() && places_.back().position == floor_)) return;
  Place place{floor_, start_, {rows_.begin(), rows_.begin() + (floor_ - first_row_)}};
  places_.reserve(kPlaces + 1);
  places_.push_back(std::move(place));
  if (places_.size() > kPlaces) places_.erase(places_.begin());
}

States::Need States::prepare(int held, int n, int n_logits) {
  Need need;
  if (memory_->layout.empty()) return need;
  const int floor = held + n - std::max(1, n_logits);
  advance_ = {};
  advance_.base = held;
  advance_.again = end_holds_ ? 0 : held - floor_;
  advance_.to_floor = floor - (held - advance_.again);
  advance_.first_input = first_row_;
  advance_.inputs.reserve(rows_.size());
  advance_.first_kept = std::max(held, first_needed(floor));
  need.rows = n_fresh_ = static_cast<size_t>(held + n - advance_.first_kept);
  advance_.kept.reserve(need.rows);
  fresh_.reserve(need.rows);
  rows_.reserve(rows_.size() + need.rows);
  if (!has_state()) return need;
  const PageRef& source = end_holds_ ? end_ : start_;
  const PageRef& spare = end_holds_ ? start_ : end_;
  need.states = (advance_.to_floor > 0 && !is_own(source) ? 1 : 0) + (is_own(spare) ? 0 : 1);
  return need;
}

void States::adopt(std::vector<PageRef>& states, std::vector<PageRef>& rows) noexcept {
  if (memory_->layout.empty()) return;
  for (const PageRef& row : rows_) advance_.inputs.push_back(floats(row));
  while (fresh_.size() < n_fresh_) {
    fresh_.push_back(next(rows));
    advance_.kept.push_back(floats(fresh_.back()));
  }
  if (!has_state()) return;
  // Others may have let go since the pages were counted; the loan then has some to spare.
  PageRef source = end_holds_ ? std::move(end_) : std::move(start_);
  PageRef spare = end_holds_ ? std::move(start_) : std::move(end_);
  if (source) advance_.from = floats(source);
  if (advance_.to_floor > 0 && !is_own(source)) {
    start_ = next(states);
    read_ = std::move(source);
  } else {
    start_ = std::move(source);
  }
  if (advance_.to_floor > 0) advance_.floor = floats(start_);
  end_ = is_own(spare) ? std::move(spare) : next(states);
  advance_.end = floats(end_);
}

void States::settle() noexcept {
  if (memory_->layout.empty()) return;
  const int floor = advance_.base - advance_.again + advance_.to_floor;
  const int first = first_needed(floor);
  const auto gone = std::min<size_t>(rows_.size(), static_cast<size_t>(first - first_row_));
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(gone));
  for (PageRef& row : fresh_) rows_.push_back(std::move(row));
  fresh_.clear();
  first_row_ = first;
  floor_ = floor;
  end_holds_ = true;
  read_ = {};
}

}  // namespace maglio

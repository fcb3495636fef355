#include "draft/recycling.h"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace maglio {
namespace {

template <typename T>
T* zeroed(size_t count) {
  void* memory = std::calloc(count, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

}  // namespace

Recycling::Recycling(size_t vocab, size_t pair_slots) : vocab_(vocab), pair_slots_(pair_slots) {
  if (vocab == 0 || vocab > kMaxVocab) {
    throw std::invalid_argument("n_vocab is " + std::to_string(vocab) + ", must be 1 .. " +
                                std::to_string(kMaxVocab));
  }
  if (pair_slots != 0 && (!is_power_of_two(pair_slots) || pair_slots > kMaxPairSlots)) {
    throw std::invalid_argument("pair_slots is " + std::to_string(pair_slots) +
                                ", must be 0 or a power of two up to " +
                                std::to_string(kMaxPairSlots));
  }
  rows_.reset(zeroed<uint32_t>(vocab * kWidth));
  if (pair_slots != 0) pairs_.reset(zeroed<Pair>(pair_slots));
}

void Recycling::observe(const int32_t* tokens, size_t count) {
  require_tokens(tokens, count);
  for (size_t i = 0; i < count; ++i) {
    const int32_t token = tokens[i];
    if (last_ != kNothing) {
      move_to_front(last_, token);
      remember_pair(before_last_, last_, token);
    }
    before_last_ = last_;
    last_ = token;
  }
}

void Recycling::observe_rows(const int32_t* tokens, const int32_t* candidates, size_t rows,
                             size_t width) {
  require_tokens(tokens, rows);
  require_tokens(candidates, rows * width);
  if (rows == 0 || width == 0) return;
  const size_t kept = std::min(width, kWidth);
  int32_t before = tokens[0] == last_ ? before_last_ : kNothing;
  for (size_t i = 0; i < rows; ++i) {
    const int32_t* best = candidates + i * width;
    uint32_t* out = row(tokens[i]);
    for (size_t j = 0; j < kWidth; ++j) out[j] = j < kept ? static_cast<uint32_t>(best[j]) + 1 : 0;
    remember_pair(before, tokens[i], best[0]);
    before = tokens[i];
  }
}

size_t Recycling::draft(size_t limit, int32_t* out) const {
  if (last_ == kNothing) return 0;
  int32_t before = before_last_;
  int32_t token = last_;
  for (size_t i = 0; i < limit; ++i) {
    const int32_t next = successor(before, token);
    if (next == kNothing) return i;
    out[i] = next;
    before = token;
    token = next;
  }
  return limit;
}

size_t Recycling::topk_of(int32_t token, int32_t* out) const {
  require_tokens(&token, 1);
  const uint32_t* candidates = row(token);
  size_t count = 0;
  while (count < kWidth && candidates[count] != 0) {
    out[count] = static_cast<int32_t>(candidates[count] - 1);
    ++count;
  }
  return count;
}

size_t Recycling::memory_bytes() const {
  return vocab_ * kWidth * sizeof(uint32_t) + pair_slots_ * sizeof(Pair);
}

std::string Recycling::check() const {
  for (size_t token = 0; token < vocab_; ++token) {
    const uint32_t* first = rows_.get() + token * kWidth;
    const uint32_t* end = std::find(first, first + kWidth, 0u);
    if (std::any_of(end, first + kWidth, [](uint32_t id) { return id != 0; })) {
      return "a candidate follows an empty place";
    }
    if (std::any_of(first, end, [&](uint32_t id) { return id > vocab_; })) {
      return "a candidate is outside the vocabulary";
    }
  }
  for (size_t i = 0; i < pair_slots_; ++i) {
    const Pair& pair = pairs_[i];
    if (pair.next == 0) continue;
    if (pair.next > vocab_) return "a successor is outside the vocabulary";
    if (slot(pair.first, pair.second) != &pair) return "a pair is in another's slot";
  }
  return "";
}

void Recycling::require_tokens(const int32_t* tokens, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i] < 0 || static_cast<size_t>(tokens[i]) >= vocab_) {
      throw std::invalid_argument("token id " + std::to_string(tokens[i]) +
                                  " is outside the vocabulary of " + std::to_string(vocab_));
    }
  }
}

// Fibonacci hashing of the pair as one number: neighbouring ids land far apart.
Recycling::Pair* Recycling::slot(int32_t first, int32_t second) const {
  const uint64_t key =
      (static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32) | static_cast<uint32_t>(second);
  const uint64_t mixed = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;
  return pairs_.get() + ((mixed >> 32) & (pair_slots_ - 1));
}

void Recycling::remember_pair(int32_t first, int32_t second, int32_t next) {
  if (pair_slots_ == 0 || first == kNothing) return;
  *slot(first, second) = Pair{first, second, static_cast<uint32_t>(next) + 1};
}

void Recycling::move_to_front(int32_t token, int32_t next) {
  uint32_t* first = row(token);
  const uint32_t id = static_cast<uint32_t>(next) + 1;
  uint32_t* place = std::find(first, first + kWidth - 1, id);  // the last one is given up
  std::move_backward(first, place, place + 1);
  *first = id;
}

int32_t Recycling::successor(int32_t first, int32_t second) const {
  if (pair_slots_ != 0 && first != kNothing) {
    const Pair& pair = *slot(first, second);
    if (pair.next != 0 && pair.first == first && pair.second == second) {
      return static_cast<int32_t>(pair.next - 1);
    }
  }
  return static_cast<int32_t>(row(second)[0]) - 1;  // kNothing where the row is empty
}

}  // namespace maglio

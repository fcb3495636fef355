#include "draft/place.h"

#include <algorithm>

namespace maglio {
namespace {

constexpr int32_t kBlock = 16;

// Whether a block has the token; of fixed size, so that it compiles to vector code.
bool has(const int32_t* block, int32_t token) {
  int32_t found = 0;
  for (int32_t i = 0; i < kBlock; ++i) found |= block[i] == token;
  return found != 0;
}

// Calls visit(position) for every position of `token` in [begin, end), in order.
template <typename Visit>
void for_each(const int32_t* text, int32_t begin, int32_t end, int32_t token, Visit visit) {
  for (; begin < end; begin += kBlock) {
    const int32_t stop = std::min(begin + kBlock, end);
    if (stop - begin == kBlock && !has(text + begin, token)) continue;
    for (int32_t i = begin; i < stop; ++i) {
      if (text[i] == token) visit(i);
    }
  }
}

}  // namespace

void Place::follow(const int32_t* text, int32_t size, int32_t token, const Match& match,
                   size_t upcoming) {
  said_[count_++ % kCompared] = token;
  if (next_ != kNone && text[next_] == token) {
    last_ = ++next_;
    ++agreed_;
    wrong_ = 0;
  } else if (match.length >= kFirmMatch && match.next < size && text[match.next] == token) {
    last_ = next_ = match.next + 1;
    agreed_ = match.length + 1;
    wrong_ = 0;
  } else {
    ++wrong_;
    next_ = kNone;
    agreed_ = 0;
    if (upcoming < kSearched) search(text, size);
  }
  if (next_ >= size) next_ = kNone;
}

void Place::drop(int32_t count) {
  last_ = last_ < count ? kNone : last_ - count;
  next_ = next_ < count ? kNone : next_ - count;
}

void Place::search(const int32_t* text, int32_t size) {
  if (last_ == kNone) return;
  // A place is behind an occurrence of the last token.
  const int32_t begin = std::max(0, last_ - kBehind - 1);
  const int32_t middle = std::max(0, last_ - 1);
  const int32_t end = std::min(size - 1, last_ + kAhead);
  Match ahead, behind;
  for_each(text, middle, end, said(0), [&](int32_t i) {
    const int32_t agreed = agreement(text, i + 1);
    if (agreed > ahead.length) ahead = Match{i + 1, agreed};
  });
  for_each(text, begin, middle, said(0), [&](int32_t i) {
    const int32_t agreed = agreement(text, i + 1);
    if (agreed >= behind.length) behind = Match{i + 1, agreed};
  });
  const Match& best = behind.length > ahead.length ? behind : ahead;
  next_ = best.next;
  agreed_ = best.length;
  if (next_ == kNone && wrong_ == 1) next_ = last_ + 1;
}

int32_t Place::agreement(const int32_t* text, int32_t place) const {
  const int32_t most = static_cast<int32_t>(
      std::min({static_cast<uint32_t>(place), count_, static_cast<uint32_t>(kCompared)}));
  int32_t agreed = 0;
  while (agreed < most && text[place - 1 - agreed] == said(agreed)) ++agreed;
  return agreed;
}

// The token before the last `back` ones.
int32_t Place::said(int32_t back) const {
  return said_[(count_ - 1 - static_cast<uint32_t>(back)) % kCompared];
}

}  // namespace maglio

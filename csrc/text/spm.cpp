#include "text/spm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <queue>
#include <stdexcept>
#include <utility>

namespace maglio {
namespace {

// Length of a UTF-8 character by its first byte alone; a stray continuation byte stands alone.
std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= 0xF0) return 4;
  if (byte >= 0xE0) return 3;
  if (byte >= 0xC0) return 2;
  return 1;
}

// A run of characters merged so far, in a doubly linked list; length 0: merged into its left.
struct Symbol {
  std::int32_t begin;
  std::int32_t length;
  std::int32_t prev;
  std::int32_t next;
};

// A possible merge of two neighbours, out of date once their lengths no longer add up.
struct Merge {
  float score;
  std::int32_t left;
  std::int32_t right;
  std::int32_t length;

  friend bool operator<(const Merge& a, const Merge& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
};

}  // namespace

// The state of one encoding.
class SpmMerger {
 public:
  SpmMerger(const SpmModel& model, std::string_view text) : model_(model), text_(text) {
    const auto size = static_cast<std::int32_t>(text.size());
    for (std::int32_t at = 0; at < size;) {
      const auto length = std::min<std::int32_t>(utf8_length(text[at]), size - at);
      const auto index = static_cast<std::int32_t>(symbols_.size());
      symbols_.push_back({at, length, index - 1, at + length == size ? -1 : index + 1});
      at += length;
    }
  }

  void merge_all() {
    for (std::int32_t i = 1; i < static_cast<std::int32_t>(symbols_.size()); ++i) offer(i - 1, i);
    while (!merges_.empty()) {
      const Merge merge = merges_.top();
      merges_.pop();
      Symbol& left = symbols_[merge.left];
      Symbol& right = symbols_[merge.right];
      if (left.length == 0 || right.length == 0 || left.length + right.length != merge.length) {
        continue;
      }
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (right.next >= 0) symbols_[right.next].prev = merge.left;
      offer(left.prev, merge.left);
      offer(merge.left, left.next);
    }
  }

  std::vector<std::int32_t> ids() const {
    std::vector<std::int32_t> ids;
    for (const Symbol& symbol : symbols_) {
      if (symbol.length == 0) continue;
      const std::string_view text = text_.substr(symbol.begin, symbol.length);
      const std::int32_t id = model_.find(text);
      if (id >= 0) {
        ids.push_back(id);
      } else {
        for (char byte : text) ids.push_back(model_.byte_ids_[static_cast<unsigned char>(byte)]);
      }
    }
    return ids;
  }

 private:
  void offer(std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const std::int32_t length = symbols_[left].length + symbols_[right].length;
    const std::int32_t id = model_.find(text_.substr(symbols_[left].begin, length));
    if (id >= 0) merges_.push({model_.scores_[id], left, right, length});
  }

  const SpmModel& model_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Merge> merges_;
};

SpmModel::SpmModel(std::string blob, std::vector<std::int64_t> offsets, std::vector<float> scores,
                   std::array<std::int32_t, 256> byte_ids)
    : blob_(std::move(blob)),
      offsets_(std::move(offsets)),
      scores_(std::move(scores)),
      byte_ids_(byte_ids) {
  check();
  ids_.reserve(scores_.size());
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const auto length = static_cast<std::size_t>(offsets_[i + 1] - offsets_[i]);
    const std::string_view text = std::string_view(blob_).substr(offsets_[i], length);
    ids_.emplace(text, static_cast<std::int32_t>(i));
    longest_ = std::max(longest_, length);
  }
}

void SpmModel::check() const {
  if (offsets_.size() != scores_.size() + 1 || offsets_.front() != 0 ||
      offsets_.back() != static_cast<std::int64_t>(blob_.size()) ||
      !std::is_sorted(offsets_.begin(), offsets_.end())) {
    throw std::invalid_argument("token offsets do not cut the blob into one piece per score");
  }
  if (std::any_of(scores_.begin(), scores_.end(), [](float s) { return std::isnan(s); })) {
    throw std::invalid_argument("a token score is NaN");
  }
  const auto n_vocab = static_cast<std::int64_t>(scores_.size());
  if (std::any_of(byte_ids_.begin(), byte_ids_.end(),
                  [n_vocab](std::int32_t id) { return id < 0 || id >= n_vocab; })) {
    throw std::invalid_argument("the token of a byte is outside the vocabulary");
  }
}

std::int32_t SpmModel::find(std::string_view text) const {
  // Also keeps the hashing of ever longer candidates from becoming quadratic.
  if (text.size() > longest_) return -1;
  const auto it = ids_.find(text);
  return it == ids_.end() ? -1 : it->second;
}

std::vector<std::int32_t> SpmModel::encode(std::string_view text) const {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("a text of 2 GiB or more cannot be encoded in one piece");
  }
  SpmMerger merger(*this, text);
  merger.merge_all();
  return merger.ids();
}

}  // namespace maglio

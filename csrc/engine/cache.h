// One sequence's keys and values for every layer that attends, and the states of the others
// (recurrent.h).
//
// A cache is a table of pages. Forgetting positions is a change of length: what lies past it is
// never read before it is written again. A fork shares pages; whoever is first to write to a shared
// one copies it. For one thread at a time, but safe with several: they wait for each other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/pages.h"
#include "engine/recurrent.h"
#include "engine/spec.h"

namespace maglio {

// Where each head of each layer lies within a page, in bytes. A head's keys and values are
// neighbours; what is inside them is the kernels' business.
class PageLayout {
 public:
  PageLayout(const ModelSpec& spec, CacheType type);

  CacheType type() const { return type_; }
  size_t page_bytes() const { return bytes_; }
  size_t keys(int layer, int kv_head) const {
    const Part& part = parts_[static_cast<size_t>(layer)];
    return part.offset + 2 * part.side() * static_cast<size_t>(kv_head);
  }
  size_t values(int layer, int kv_head) const {
    return keys(layer, kv_head) + parts_[static_cast<size_t>(layer)].side();
  }
  // Copies the first positions of a page.
  void copy(const uint8_t* from, uint8_t* to, int positions) const;

 private:
  struct Part {
    size_t offset;
    int n_kv_head;
    size_t tile_bytes;
    // Of a head's keys, or of its values.
    size_t side() const { return tile_bytes * (kPagePositions / kKeyTile); }
  };
  const CacheType type_;
  std::vector<Part> parts_;
  size_t bytes_ = 0;
};

// What a cache is made of.
struct CacheParts {
  int length = 0;
  std::vector<PageRef> pages;  // as many as these positions take
  StateParts states;
};

class Cache {
 public:
  Cache(std::shared_ptr<const PageLayout> layout, std::shared_ptr<PagePool> pool,
        std::shared_ptr<RecurrentMemory> recurrent, int n_ctx);
  Cache(std::shared_ptr<const PageLayout> layout, std::shared_ptr<PagePool> pool,
        std::shared_ptr<RecurrentMemory> recurrent, int n_ctx, CacheParts parts);
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  int n_ctx() const { return n_ctx_; }
  int length() const { return length_.load(std::memory_order_acquire); }
  // The shortest length that truncate() reaches exactly.
  int floor() const { return floor_.load(std::memory_order_acquire); }
  // Without places to go back to, and without the state after the last row.
  CacheParts parts() const;
  // The pages held, shared ones too.
  PageSizes pages() const;

  // Forgets positions from `length` on, gives back the pages past them and returns how many are
  // kept: fewer than `length` only below the floor. Throws InvalidInput outside [0, length()].
  int truncate(int length);
  // A cache that begins with the same `length` positions. Throws InvalidInput outside
  // [floor(), length()].
  std::shared_ptr<Cache> fork(int length) const;
  // Remembers about where it is, for truncate() to come back to from far beyond the floor.
  void keep();
  // Takes the pages of keys and values for n more positions. Throws ContextFull or OutOfPages; no
  // position changes.
  void reserve(int n);

  // --- For a forward, which holds lock() from the first of these calls to the last.

  std::unique_lock<std::mutex> lock() const { return std::unique_lock<std::mutex>(mutex_); }
  bool is_of(const PagePool& pool) const { return pool_.get() == &pool; }
  // Throws ContextFull when there is no room for n more positions; `where` begins its message.
  void check_room(int n, const std::string& where) const;
  // Readies the table for n more positions and returns how many pages they take: new ones, and a
  // copy of a last one that is shared.
  size_t prepare(int n);
  // Takes those pages from the end of `loan`. Cannot fail, so that a batch gets all or nothing.
  void adopt(std::vector<PageRef>& loan, int n) noexcept;
  // Kernels read positions below the length there, and write up to n past it.
  CacheHead head(int layer, int kv_head) const {
    return {layout_->type(), table_.data(), layout_->keys(layer, kv_head),
            layout_->values(layer, kv_head)};
  }
  // Counts n positions that were written since.
  void extend(int n);
  States& states() { return states_; }

 private:
  void check_length(int length) const;
  bool last_is_shared() const;
  void keep_pages(size_t pages);

  const std::shared_ptr<const PageLayout> layout_;
  const std::shared_ptr<PagePool> pool_;
  const int n_ctx_;
  mutable std::mutex mutex_;
  std::atomic<int> length_{0};
  std::vector<PageRef> pages_;
  std::vector<uint8_t*> table_;  // their memory, as kernels want it
  const std::shared_ptr<RecurrentMemory> recurrent_;
  States states_;
  std::atomic<int> floor_{0};  // of the states
};

}  // namespace maglio

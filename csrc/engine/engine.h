// The forward pass. Token ids in, logits out.
//
// The row law: the logits of a position and the cache rows it leaves are a pure function of the
// tokens up to it. Every step computes each row by itself (kernels.h), and each output by one
// thread from start to end, so neither what else is in a batch nor the number of threads can change
// a bit.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "engine/cache.h"
#include "engine/errors.h"
#include "engine/model.h"
#include "engine/row_pool.h"
#include "engine/thread_pool.h"

namespace maglio {

struct Scratch;

// What a forward appends to one cache: n tokens, and logits are wanted of the last n_logits.
struct Segment {
  Cache* cache;
  const int32_t* tokens;
  int n;
  int n_logits;
};

// Begins a message about one of `count` segments; empty where it is the only one.
std::string of_segment(int index, int count);

class Engine {
 public:
  // `model` must pass Model::check(). Caches use at most `cache_budget` bytes at a time; 0 stands
  // for no limit.
  Engine(std::shared_ptr<const Model> model, const Kernels& kernels, int threads,
         CacheType cache_type = CacheType::kF16, size_t cache_budget = 0);
  ~Engine();

  const Model& model() const { return *model_; }
  const char* isa() const { return kernels_.isa; }
  int threads() const { return pool_.size(); }
  // Bytes that all caches use.
  size_t cache_bytes() const { return account_->lent(); }
  const PagePool& pages() const { return *pages_; }
  const RecurrentLayout& recurrent() const { return recurrent_->layout; }
  const PageLayout& layout() const { return *layout_; }
  // Where its caches have their memory.
  PagePool& page_pool() const { return *pages_; }
  RecurrentMemory& recurrent_memory() const { return *recurrent_; }
  // Where callers may get memory for logits.
  const std::shared_ptr<RowPool>& rows() const { return rows_; }

  // Most rows of one forward, all segments together; longer inputs are the caller's to cut.
  static constexpr int kMaxRows = 128;

  std::shared_ptr<Cache> new_cache(int n_ctx) const;
  // A cache of parts that are in this engine's memory.
  std::shared_ptr<Cache> make_cache(int n_ctx, CacheParts parts) const;

  // Appends every segment (at least one token, ids below n_vocab, a cache of this engine that no
  // other segment names) to its cache and writes the wanted logits, segment after segment, to
  // logits[sum of n_logits][n_vocab]. All or nothing: throws InvalidInput, ContextFull,
  // std::bad_alloc or, in the child of a fork, ThreadsRefused with every cache as it was.
  // Thread-safe; forwards wait for each other.
  void forward(const Segment* segments, int count, float* logits);

 private:
  void check(const Segment* segments, int count) const;
  struct Missing {
    size_t pages = 0, states = 0, rows = 0;
  };
  Missing prepare(const Segment* segments, int count);
  void adopt(const Segment* segments, int count, const Missing& missing);

  std::shared_ptr<const Model> model_;
  const Kernels& kernels_;
  ThreadPool pool_;
  std::shared_ptr<const PageLayout> layout_;
  std::shared_ptr<Account> account_;
  std::shared_ptr<PagePool> pages_;
  std::shared_ptr<RecurrentMemory> recurrent_;
  std::unique_ptr<Scratch> scratch_;
  std::shared_ptr<RowPool> rows_ = std::make_shared<RowPool>();
  std::mutex mutex_;
};

}  // namespace maglio

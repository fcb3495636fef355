// The forward pass. Token ids in, logits out.
//
// The row law: the logits of a position and the cache rows it leaves are a pure function of the
// tokens up to it. Every step below computes each row by itself (kernels.h), and each output by
// one thread from start to end, so neither the number of rows nor of threads can change a bit.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/row_pool.h"
#include "engine/thread_pool.h"

namespace maglio {

class Engine {
 public:
  // `model` must pass Model::check().
  Engine(std::shared_ptr<const Model> model, const Kernels& kernels, int threads);
  ~Engine();

  const Model& model() const { return *model_; }
  const char* isa() const { return kernels_.isa; }
  int threads() const { return pool_.size(); }
  // Where callers may get memory for logits.
  const std::shared_ptr<RowPool>& rows() const { return rows_; }

  // Most rows of one forward; longer inputs are the caller's to cut.
  static constexpr int kMaxRows = 128;

  // Appends n tokens (1 to kMaxRows, ids below n_vocab, within the cache's room) to `cache` and
  // writes the logits of the last n_logits of them to logits[n_logits][n_vocab]. Throws
  // std::invalid_argument, with the cache untouched, on anything else. Thread-safe; the cache must
  // not be in use elsewhere.
  void forward(KvCache& cache, const int32_t* tokens, int n, int n_logits, float* logits);

 private:
  struct Scratch;
  struct Pass;

  std::shared_ptr<const Model> model_;
  const Kernels& kernels_;
  ThreadPool pool_;
  std::unique_ptr<Scratch> scratch_;
  std::shared_ptr<RowPool> rows_ = std::make_shared<RowPool>();
  std::mutex mutex_;
};

}  // namespace maglio

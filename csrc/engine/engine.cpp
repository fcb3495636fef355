#include "engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention.h"
#include "engine/gated.h"
#include "engine/pass.h"

namespace maglio {
namespace {

void embed(Pass& pass, int row) {
  const Model& model = pass.model;
  float* x = pass.residual(row);
  model.embedding.unpack_row(pass.rows[static_cast<size_t>(row)].token, x);
  if (model.spec.embedding_scale == 1.0f) return;
  for (int i = 0; i < model.spec.n_embd; ++i) x[i] *= model.spec.embedding_scale;
}

void norm_attention_input(Pass& pass, int row, const Layer& layer) {
  pass.norm_input(row, row, layer.attention_norm, {&layer.query, &layer.key, &layer.value});
}

void compute_logits(Pass& pass, int member) {
  const Model& model = pass.model;
  const Matrix& head = model.output_head();
  const int n = static_cast<int>(pass.wanted.size());
  if (n == 0) return;
  pass.each_row(member, n, [&](int i) {
    pass.norm_input(pass.wanted[static_cast<size_t>(i)], i, model.output_norm, {&head});
  });
  pass.project(model.spec.n_layer * kLayerPhases,
               {{head, pass.scratch.embd_in.view(model.spec.n_embd), pass.logits, n}});
}

void run(Pass& pass, int member) {
  const std::vector<Layer>& layers = pass.model.layers;
  pass.each_row(member, pass.n(), [&](int row) {
    embed(pass, row);
    norm_attention_input(pass, row, layers.front());
  });
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    run_attention(pass, member, static_cast<int>(i));
    pass.each_row(member, pass.n(), [&](int row) {
      pass.join(row, layer.attention_post_norm);
      pass.norm_input(row, row, layer.ffn_norm, {&layer.gate, &layer.up});
    });
    run_gated(pass, member, static_cast<int>(i));
    pass.each_row(member, pass.n(), [&](int row) {
      pass.join(row, layer.ffn_post_norm);
      if (i + 1 < layers.size()) norm_attention_input(pass, row, layers[i + 1]);
    });
  }
  compute_logits(pass, member);
}

// Names the segment in a message, where there are several.
std::string of_segment(int index, int count) {
  return count == 1 ? "" : "segment " + std::to_string(index) + ": ";
}

std::string out_of_range(const std::string& name, int64_t value, int low, int high) {
  return name + " is " + std::to_string(value) + ", must be an integer from " +
         std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

Engine::Engine(std::shared_ptr<const Model> model, const Kernels& kernels, int threads,
               size_t cache_budget)
    : model_(std::move(model)),
      kernels_(kernels),
      pool_(threads),
      layout_(std::make_shared<PageLayout>(model_->spec)),
      pages_(std::make_shared<PagePool>(layout_->page_bytes(), cache_budget)),
      scratch_(std::make_unique<Scratch>(*model_)) {}

Engine::~Engine() = default;

std::shared_ptr<Cache> Engine::new_cache(int n_ctx) const {
  return std::make_shared<Cache>(layout_, pages_, n_ctx);
}

// What does not depend on how full a cache is.
void Engine::check(const Segment* segments, int count) const {
  int64_t rows = 0;
  for (int i = 0; i < count; ++i) {
    const Segment& s = segments[i];
    const std::string where = of_segment(i, count);
    if (!s.cache->is_of(*pages_)) throw InvalidInput(where + "the cache is another engine's");
    for (int j = 0; j < i; ++j) {
      if (segments[j].cache == s.cache) {
        throw InvalidInput(where + "its cache is also that of segment " + std::to_string(j));
      }
    }
    if (s.n < 1) throw InvalidInput(where + "tokens is empty, must hold at least one token id");
    if (s.n_logits < 0 || s.n_logits > s.n) {
      throw InvalidInput(where + out_of_range("n_logits", s.n_logits, 0, s.n));
    }
    rows += s.n;
    if (rows > kMaxRows) {
      throw InvalidInput("a forward takes at most " + std::to_string(kMaxRows) +
                         " tokens, all segments together; cut the input");
    }
    for (int t = 0; t < s.n; ++t) {
      if (s.tokens[t] >= 0 && s.tokens[t] < model_->spec.n_vocab) continue;
      throw InvalidInput(where + out_of_range("tokens[" + std::to_string(t) + "]", s.tokens[t], 0,
                                              model_->spec.n_vocab - 1));
    }
  }
  if (rows == 0) throw InvalidInput("the batch is empty, must hold at least one segment");
}

// Room for everything, or nothing changes.
void Engine::reserve(const Segment* segments, int count) {
  size_t missing = 0;
  for (int i = 0; i < count; ++i) {
    segments[i].cache->check_room(segments[i].n);
    missing += segments[i].cache->prepare(segments[i].n);
  }
  std::vector<PageRef> loan = pages_->lend(missing);
  for (int i = 0; i < count; ++i) segments[i].cache->adopt(loan, segments[i].n);
}

void Engine::forward(const Segment* segments, int count, float* logits) {
  check(segments, count);
  const std::lock_guard<std::mutex> lock(mutex_);
  // Only the holder of the engine's lock locks several caches, so nobody waits in a circle.
  std::vector<std::unique_lock<std::mutex>> holds;
  holds.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) holds.push_back(segments[i].cache->lock());

  Pass pass{*model_, kernels_, pool_, *scratch_, {}, {}, {}, logits};
  int positions = 0;
  for (int i = 0; i < count; ++i) {
    const Segment& s = segments[i];
    const int at = s.cache->length();
    pass.ranges.push_back({s.cache, pass.n(), s.n});
    for (int t = 0; t < s.n; ++t) {
      if (t >= s.n - s.n_logits) pass.wanted.push_back(pass.n());
      pass.rows.push_back({s.tokens[t], at + t, s.cache});
    }
    positions = std::max(positions, at + s.n);
  }
  scratch_->fit(*model_, pass.n(), positions);
  reserve(segments, count);  // the last thing that can fail
  for (std::atomic<int>& next : scratch_->next_tile) next.store(0, std::memory_order_relaxed);
  pool_.run([&pass](int member) { run(pass, member); });
  for (int i = 0; i < count; ++i) segments[i].cache->extend(segments[i].n);
}

}  // namespace maglio

#include "engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/pass.h"

namespace maglio {
namespace {

void embed(Pass& pass, int row) {
  const Model& model = pass.model;
  model.embedding.unpack_row(pass.rows[static_cast<size_t>(row)].token, pass.residual(row));
  pass.scale(row, model.spec.embedding_scale);
}

bool reads_codes(const Mixer& mixer) {
  return std::visit([](const auto& part) { return part.reads_codes(); }, mixer);
}

bool reads_codes(const FeedForward& ffn) {
  return std::visit([](const auto& part) { return part.reads_codes(); }, ffn);
}

void run_layer(Pass& pass, int member, size_t index) {
  const std::vector<Layer>& layers = pass.model.layers;
  const Layer& layer = layers[index];
  const Layer* next = index + 1 < layers.size() ? &layers[index + 1] : nullptr;
  const auto run = [&](const auto& part) -> const Vector& {
    part.run(pass, member, static_cast<int>(index));
    return part.output_bias;
  };
  const Vector& mixer_bias = std::visit(run, layer.mixer);
  pass.each_row(member, pass.n(), [&](int row) {
    pass.join(row, mixer_bias, layer.mixer_post_norm);
    pass.norm_input(row, row, layer.feed_forward_norm, reads_codes(layer.feed_forward));
  });
  const Vector& ffn_bias = std::visit(run, layer.feed_forward);
  const auto leave = [&](int row) {
    pass.scale(row, pass.model.spec.layers[index].output_scale);
    if (next) pass.norm_input(row, row, next->mixer_norm, reads_codes(next->mixer));
  };
  const bool has_input = layer.input.n > 0;
  pass.each_row(member, pass.n(), [&](int row) {
    pass.join(row, ffn_bias, layer.feed_forward_post_norm);
    has_input ? pass.norm_input(row, row, {}, layer.input.reads_codes()) : leave(row);
  });
  if (!has_input) return;
  layer.input.run(pass, member, static_cast<int>(index));
  pass.each_row(member, pass.n(), [&](int row) {
    pass.join(row, {}, layer.input.post_norm);
    leave(row);
  });
}

void compute_logits(Pass& pass, int member) {
  const Model& model = pass.model;
  const Matrix& head = model.output_head();
  const int n = static_cast<int>(pass.wanted.size());
  if (n == 0) return;
  const bool quantize = is_quantized(head.view().layout);
  pass.each_row(member, n, [&](int i) {
    pass.norm_input(pass.wanted[static_cast<size_t>(i)], i, model.output_norm, quantize);
  });
  pass.project(
      pass.scratch.model_phase(kHead),
      {{head.view(), pass.scratch.embd_in.view(pass.width()), pass.logits, n, head.rows()}});
  const float scale = model.spec.logit_scale, cap = model.spec.logit_cap;
  const Vector& bias = model.output_bias;
  if (bias.empty() && scale == 1.0f && cap == 0.0f) return;
  const int n_vocab = model.spec.n_vocab;
  pass.each_row(member, n, [&](int i) {
    float* row = pass.logits + static_cast<size_t>(i) * static_cast<size_t>(n_vocab);
    if (!bias.empty()) {  // which is longer: another member may be at work on the next row
      for (int t = 0; t < n_vocab; ++t) row[t] += bias[static_cast<size_t>(t)];
    }
    if (scale != 1.0f) {
      for (int t = 0; t < n_vocab; ++t) row[t] *= scale;
    }
    if (cap != 0.0f) pass.kernels.soft_cap(row, n_vocab, cap);
  });
}

void run(Pass& pass, int member) {
  const Model& model = pass.model;
  const Layer& first = model.layers.front();
  pass.each_row(member, pass.n(), [&](int row) { embed(pass, row); });
  if (model.spec.n_embd_per_layer > 0) model.layer_embeddings.run(pass, member);
  pass.each_row(member, pass.n(), [&](int row) {
    pass.norm_input(row, row, first.mixer_norm, reads_codes(first.mixer));
  });
  for (size_t i = 0; i < model.layers.size(); ++i) run_layer(pass, member, i);
  compute_logits(pass, member);
}

std::string out_of_range(const std::string& name, int64_t value, int low, int high) {
  return name + " is " + std::to_string(value) + ", must be an integer from " +
         std::to_string(low) + " to " + std::to_string(high);
}

PagePool::Use use_of_pages(CacheType type) {
  PagePool::Use use;
  if (type == CacheType::kF16) use.advice = "load the model with kv_cache=\"q8_0\", ";
  return use;
}

}  // namespace

std::string of_segment(int index, int count) {
  return count == 1 ? "" : "segment " + std::to_string(index) + ": ";
}

Engine::Engine(std::shared_ptr<const Model> model, const Kernels& kernels, int threads,
               CacheType cache_type, size_t cache_budget)
    : model_(std::move(model)),
      kernels_(kernels),
      pool_(threads),
      layout_(std::make_shared<PageLayout>(model_->spec, cache_type)),
      account_(std::make_shared<Account>(cache_budget)),
      pages_(std::make_shared<PagePool>(layout_->page_bytes(), account_, use_of_pages(cache_type))),
      recurrent_(std::make_shared<RecurrentMemory>(model_->spec, account_)),
      scratch_(std::make_unique<Scratch>(*model_)) {}

Engine::~Engine() = default;

std::shared_ptr<Cache> Engine::new_cache(int n_ctx) const {
  return std::make_shared<Cache>(layout_, pages_, recurrent_, n_ctx);
}

std::shared_ptr<Cache> Engine::make_cache(int n_ctx, CacheParts parts) const {
  return std::make_shared<Cache>(layout_, pages_, recurrent_, n_ctx, std::move(parts));
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

// Readies the caches, which hold what they held.
Engine::Missing Engine::prepare(const Segment* segments, int count) {
  Missing missing;
  for (int i = 0; i < count; ++i) {
    const Segment& s = segments[i];
    s.cache->check_room(s.n, of_segment(i, count));
    missing.pages += s.cache->prepare(s.n);
    const States::Need need = s.cache->states().prepare(s.cache->length(), s.n, s.n_logits);
    missing.states += need.states;
    missing.rows += need.rows;
  }
  return missing;
}

// Room for everything, or nothing changes.
void Engine::adopt(const Segment* segments, int count, const Missing& missing) {
  std::vector<PageRef> pages = pages_->lend(missing.pages);
  std::vector<PageRef> states = recurrent_->states.lend(missing.states);
  std::vector<PageRef> rows = recurrent_->rows.lend(missing.rows);
  for (int i = 0; i < count; ++i) {
    segments[i].cache->adopt(pages, segments[i].n);
    segments[i].cache->states().adopt(states, rows);
  }
}

void Engine::forward(const Segment* segments, int count, float* logits) {
  check(segments, count);
  const std::lock_guard<std::mutex> lock(mutex_);
  pool_.survive_forks();
  // Only the holder of the engine's lock locks several caches, so nobody waits in a circle.
  std::vector<std::unique_lock<std::mutex>> holds;
  holds.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) holds.push_back(segments[i].cache->lock());

  const Missing missing = prepare(segments, count);
  Pass pass{*model_, recurrent_->layout, kernels_, pool_, *scratch_, {}, {}, {}, logits};
  int positions = 0;
  for (int i = 0; i < count; ++i) {
    const Segment& s = segments[i];
    const int at = s.cache->length();
    pass.ranges.push_back({s.cache, pass.n(), s.n, i == 0 ? 0 : pass.n_all()});
    for (int t = 0; t < s.n; ++t) {
      if (t >= s.n - s.n_logits) pass.wanted.push_back(pass.n());
      pass.rows.push_back({s.tokens[t], at + t, s.cache});
    }
    positions = std::max(positions, at + s.n);
  }
  scratch_->fit(*model_, pass.n(), pass.n_all(), positions);
  adopt(segments, count, missing);  // the last thing that can fail
  for (std::atomic<int>& next : scratch_->next_tile) next.store(0, std::memory_order_relaxed);
  pool_.run([&pass](int member) { run(pass, member); });
  for (int i = 0; i < count; ++i) segments[i].cache->extend(segments[i].n);
}

}  // namespace maglio

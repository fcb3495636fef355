// A small model run by every set of kernels and by one and two threads, for runs under sanitizers.
// All of them must give the same bits, alone and in batches.
#include "engine/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "small_model.h"

namespace {

using maglio::Cache;
using maglio::CacheType;
using maglio::Engine;
using maglio::Kernels;
using maglio::Model;
using maglio::Segment;
using maglio::TensorType;

constexpr size_t kVocab = 37;

int32_t token_at(int stream, int position) { return (position * (stream + 1) + stream) % 37; }

// Appends the next n tokens of a stream; returns their rows.
std::vector<float> feed(Engine& engine, Cache& cache, int stream, int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(token_at(stream, cache.length() + i));
  std::vector<float> out(static_cast<size_t>(n) * kVocab);
  const Segment segment{&cache, tokens.data(), n, n};
  engine.forward(&segment, 1, out.data());
  return out;
}

// Rows of a stream fed in chunks of `width`, in a cache without a place to spare.
std::vector<float> logits_of(Engine& engine, int n, int width, int stream = 0) {
  const std::shared_ptr<Cache> cache = engine.new_cache(n);
  std::vector<float> out;
  while (cache->length() < n) {
    const std::vector<float> rows =
        feed(engine, *cache, stream, std::min(width, n - cache->length()));
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::vector<float> part(const std::vector<float>& rows, int first, int last) {
  return {rows.begin() + first * static_cast<int>(kVocab),
          rows.begin() + last * static_cast<int>(kVocab)};
}

void kernels_threads_and_widths_agree() {
  for (TensorType type : small_model::kTypes) {
    const std::shared_ptr<const Model> model = small_model::make(type);
    // Beyond a block of 64 positions once with each cache.
    const int n = type == TensorType::kQ4_0 || type == TensorType::kQ8_0 ? 70 : 12;
    const CacheType cache = type < TensorType::kQ8_0 ? CacheType::kF16 : CacheType::kQ8_0;
    Engine definition(model, *maglio::find_kernels("portable"), 1, cache);
    const std::vector<float> expected = logits_of(definition, n, 1);
    for (float logit : expected) CHECK(logit == logit);
    for (const Kernels* kernels : maglio::available_kernels()) {
      for (int threads : {1, 2}) {
        Engine engine(model, *kernels, threads, cache);
        for (int width : {3, 11, 70}) CHECK(same_bits(logits_of(engine, n, width), expected));
      }
    }
  }
}

void any_width_gives_the_same_bits_everywhere() {
  for (TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    const std::shared_ptr<const Model> model = small_model::make(type, small_model::ragged_spec());
    const CacheType cache = type == TensorType::kF16 ? CacheType::kQ8_0 : CacheType::kF16;
    Engine definition(model, *maglio::find_kernels("portable"), 1, cache);
    const std::vector<float> expected = logits_of(definition, 70, 1);
    for (float logit : expected) CHECK(logit == logit);
    for (const Kernels* kernels : maglio::available_kernels()) {
      Engine engine(model, *kernels, 2, cache);
      for (int width : {3, 70}) CHECK(same_bits(logits_of(engine, 70, width), expected));
    }
  }
}

void forgetting_leaves_nothing_behind() {
  Engine engine(small_model::make(TensorType::kQ8_0), *maglio::find_kernels(""), 2);
  const std::vector<float> expected = logits_of(engine, 8, 8);
  const std::shared_ptr<Cache> cache = engine.new_cache(8);
  feed(engine, *cache, 0, 8);
  CHECK(cache->truncate(3) == 3);
  feed(engine, *cache, 1, 5);
  CHECK(cache->truncate(3) == 3);
  CHECK(same_bits(feed(engine, *cache, 0, 5), part(expected, 3, 8)));
}

// Segments of every kind beside each other: a prefill without rows, one with its last row, a
// verify, plain steps, at contexts before and past the border of a page.
void a_batch_is_each_segment_alone() {
  const std::shared_ptr<const Model> model = small_model::make(TensorType::kQ4_0);
  Engine alone(model, *maglio::find_kernels("portable"), 1);
  constexpr int kStreams = 5;
  const int lengths[] = {1, 62, 64, 65, 3}, counts[] = {40, 5, 1, 1, 33},
            wanted[] = {0, 5, 1, 1, 1};
  std::vector<std::vector<float>> expected;
  for (int s = 0; s < kStreams; ++s) {
    expected.push_back(logits_of(alone, lengths[s] + counts[s], 1, s));
  }
  for (const Kernels* kernels : maglio::available_kernels()) {
    for (int threads : {1, 2, 3}) {
      Engine engine(model, *kernels, threads);
      std::vector<std::shared_ptr<Cache>> caches;
      std::vector<std::vector<int32_t>> tokens(kStreams);
      std::vector<Segment> batch;
      for (int s = 0; s < kStreams; ++s) {
        caches.push_back(engine.new_cache(128));
        feed(engine, *caches.back(), s, lengths[s]);
        for (int i = 0; i < counts[s]; ++i) tokens[s].push_back(token_at(s, lengths[s] + i));
        batch.push_back({caches.back().get(), tokens[s].data(), counts[s], wanted[s]});
      }
      std::vector<float> out(8 * kVocab);
      engine.forward(batch.data(), kStreams, out.data());
      int row = 0;
      for (int s = 0; s < kStreams; ++s) {
        const int end = lengths[s] + counts[s];
        CHECK(caches[s]->length() == end);
        CHECK(same_bits(part(out, row, row + wanted[s]), part(expected[s], end - wanted[s], end)));
        row += wanted[s];
      }
    }
  }
}

template <typename Error, typename Function>
bool refused(Function function) {
  try {
    function();
  } catch (const Error&) {
    return true;
  }
  return false;
}

void what_cannot_be_fed_is_refused_and_changes_nothing() {
  using maglio::ContextFull;
  using maglio::InvalidInput;
  const std::shared_ptr<const Model> model = small_model::make(TensorType::kF32);
  Engine engine(model, *maglio::find_kernels("portable"), 1);
  Engine other(model, *maglio::find_kernels("portable"), 1);
  const std::shared_ptr<Cache> cache = engine.new_cache(4), second = engine.new_cache(200);
  const std::shared_ptr<Cache> foreign = other.new_cache(4);
  std::vector<float> logits(8 * kVocab);
  const std::vector<int32_t> good(129, 1);
  const int32_t negative[] = {1, -1}, large[] = {1, 37};
  const auto forward = [&](std::vector<Segment> batch) {
    engine.forward(batch.data(), static_cast<int>(batch.size()), logits.data());
  };
  const Segment fine{second.get(), good.data(), 2, 1};
  CHECK(refused<InvalidInput>([&] { forward({}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, {cache.get(), good.data(), 0, 0}}); }));
  CHECK(refused<ContextFull>([&] { forward({fine, {cache.get(), good.data(), 5, 1}}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, {cache.get(), good.data(), 2, 3}}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, {cache.get(), good.data(), 2, -1}}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, {cache.get(), negative, 2, 1}}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, {cache.get(), large, 2, 1}}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, {foreign.get(), good.data(), 1, 1}}); }));
  CHECK(refused<InvalidInput>([&] { forward({fine, fine}); }));
  CHECK(refused<InvalidInput>([&] { forward({{second.get(), good.data(), 129, 1}}); }));
  CHECK(refused<InvalidInput>(
      [&] { forward({{second.get(), good.data(), 126, 1}, {cache.get(), good.data(), 3, 1}}); }));
  CHECK(cache->length() == 0 && second->length() == 0 && foreign->length() == 0);
  CHECK(engine.pages().bytes_lent() == 0);
  forward({{cache.get(), good.data(), 4, 1}});
  CHECK(refused<ContextFull>([&] { forward({{cache.get(), good.data(), 1, 1}}); }));
  CHECK(refused<InvalidInput>([&] { cache->truncate(5); }));
  CHECK(refused<InvalidInput>([&] { cache->truncate(-1); }));
  CHECK(refused<InvalidInput>([&] { cache->fork(5); }));
  CHECK(cache->length() == 4);
}

// The room of a whole batch is taken at once: one segment without memory leaves all as they were.
void a_batch_without_memory_changes_nothing() {
  const std::shared_ptr<const Model> model = small_model::make(TensorType::kQ8_0);
  const size_t page = maglio::PageLayout(model->spec, CacheType::kF16).page_bytes();
  Engine engine(model, *maglio::find_kernels(""), 2, CacheType::kF16, 3 * page);
  const std::shared_ptr<Cache> one = engine.new_cache(256), two = engine.new_cache(256);
  const std::vector<float> expected = logits_of(engine, 64, 64);
  feed(engine, *one, 0, 60);
  feed(engine, *two, 0, 60);
  CHECK(engine.pages().bytes_lent() == 2 * page);
  const std::vector<int32_t> tokens(70, 1);
  std::vector<float> logits(kVocab);
  const Segment batch[] = {{one.get(), tokens.data(), 5, 0}, {two.get(), tokens.data(), 5, 1}};
  CHECK(refused<std::bad_alloc>([&] { engine.forward(batch, 2, logits.data()); }));
  CHECK(one->length() == 60 && two->length() == 60);
  CHECK(engine.pages().bytes_lent() == 2 * page);
  CHECK(same_bits(feed(engine, *one, 0, 4), part(expected, 60, 64)));
  CHECK(same_bits(feed(engine, *two, 0, 4), part(expected, 60, 64)));
}

// More threads than positions left: each forward finds room or is refused.
void threads_at_the_end_of_one_cache() {
  Engine engine(small_model::make(TensorType::kQ8_0), *maglio::find_kernels(""), 2);
  const std::shared_ptr<Cache> cache = engine.new_cache(70);
  const std::vector<int32_t> tokens(8, 1);
  // Another thread may shorten the cache between a question and what follows from the answer.
  const auto try_to = [](auto action) {
    try {
      action();
    } catch (const maglio::InvalidInput&) {
    }
  };
  const auto hammer = [&](int n) {
    std::vector<float> logits(static_cast<size_t>(n) * kVocab);
    const Segment segment{cache.get(), tokens.data(), n, n};
    for (int i = 0; i < 60; ++i) {
      try {
        engine.forward(&segment, 1, logits.data());
      } catch (const maglio::ContextFull&) {
        try_to([&] { cache->truncate(std::min(cache->length(), 60)); });
      }
      if (i % 8 == 0) try_to([&] { cache->fork(cache->length() / 2)->truncate(1); });
      if (i % 16 == 0) try_to([&] { cache->truncate(40); });
    }
  };
  std::vector<std::thread> threads;
  for (int n : {1, 3, 8}) threads.emplace_back(hammer, n);
  for (std::thread& thread : threads) thread.join();
  CHECK(cache->length() <= 70);
  cache->truncate(0);
  CHECK(same_bits(feed(engine, *cache, 0, 70), logits_of(engine, 70, 1)));
}

void what_is_not_finite_has_no_scale_and_makes_nan() {
  constexpr int kCols = 64;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Kernels* kernels : maglio::available_kernels()) {
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
      for (int at = 0; at < 32; ++at) {
        std::vector<float> values(kCols, 2.5f), scales(2), scaled_sums(2);
        std::vector<int8_t> codes(kCols, 1);
        std::vector<int32_t> neg_sums(4, 1);
        values[static_cast<size_t>(at)] = bad;
        const maglio::Activations x{kCols,         values.data(),      codes.data(),
                                    scales.data(), scaled_sums.data(), neg_sums.data()};
        kernels->quantize(x, 0, 2);
        CHECK(scales[0] != scales[0] && scaled_sums[0] != scaled_sums[0]);
        CHECK(neg_sums[0] == 0 && neg_sums[1] == 0);
        CHECK(std::count(codes.begin(), codes.begin() + 32, 0) == 32);
        CHECK(scales[1] == 2.5f / 127.0f && neg_sums[2] == -16 * 127 && codes[63] == 127);
      }
    }
  }
}

void shares_are_done_once_each() {
  for (int count : {1, 2, 7}) {
    std::vector<int> done(static_cast<size_t>(count), 0);
    maglio::run_shares(count, [&](int member) { ++done[static_cast<size_t>(member)]; });
    CHECK(std::count(done.begin(), done.end(), 1) == count);
  }
}

void a_model_with_a_wrong_part_does_not_pass_its_check() {
  const maglio::ModelSpec sound = small_model::spec();
  CHECK(sound.check().empty());
  CHECK(!Model(sound).check().empty());  // no weights
  for (int strange : {0, -1, 1 << 26, 0x7FFFFFFF}) {
    maglio::ModelSpec spec = sound;
    std::get<maglio::AttentionSpec>(spec.layers[1].mixer).head_dim = strange;
    CHECK(!spec.check().empty());
    std::get<maglio::AttentionSpec>(spec.layers[1].mixer).n_head = strange;
    CHECK(!spec.check().empty());
    spec = sound;
    std::get<maglio::GatedSpec>(spec.layers[0].feed_forward).n_ff = strange;
    CHECK(!spec.check().empty());
    for (int maglio::ExpertsSpec::* part :
         {&maglio::ExpertsSpec::n_ff, &maglio::ExpertsSpec::n_expert}) {
      spec = sound;
      std::get<maglio::ExpertsSpec>(spec.layers[2].feed_forward).*part = strange;
      CHECK(!spec.check().empty());
    }
    spec = sound;
    std::get<maglio::ExpertsSpec>(spec.layers[2].feed_forward).n_used = strange;
    CHECK(!spec.check().empty());
  }
  const std::shared_ptr<Model> model = small_model::make(TensorType::kF32);
  const size_t bytes = model->weight_bytes();
  maglio::Attention& attention = std::get<maglio::Attention>(model->layers[0].mixer);
  const size_t key_bytes = attention.key.bytes();
  CHECK(key_bytes > 0);
  attention.key = maglio::Matrix();
  CHECK(model->weight_bytes() == bytes - key_bytes);
  CHECK(model->check().find("'blk.0.attn_k.weight' is 0 x 0, expected 64 x 256") !=
        std::string::npos);
  model->layers[1].mixer_post_norm = maglio::Vector(256);
  std::get<maglio::Attention>(model->layers[0].mixer).key =
      small_model::matrix(TensorType::kF32, 64, 256);
  CHECK(model->check() == "tensor 'blk.1.post_attention_norm.weight' is superfluous");
}

}  // namespace

int main() {
  kernels_threads_and_widths_agree();
  any_width_gives_the_same_bits_everywhere();
  forgetting_leaves_nothing_behind();
  a_batch_is_each_segment_alone();
  what_cannot_be_fed_is_refused_and_changes_nothing();
  a_batch_without_memory_changes_nothing();
  threads_at_the_end_of_one_cache();
  what_is_not_finite_has_no_scale_and_makes_nan();
  shares_are_done_once_each();
  a_model_with_a_wrong_part_does_not_pass_its_check();
  std::puts("engine: ok");
  return 0;
}

// Recurrent layers: caches that go back, fork and keep places, against streams computed from their
// first token. By every set of kernels and by one and two threads, for runs under sanitizers.
#include "engine/recurrent.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/engine.h"
#include "small_model.h"

namespace {

using maglio::Cache;
using maglio::Engine;
using maglio::Kernels;
using maglio::Model;
using maglio::Segment;
using maglio::TensorType;

constexpr size_t kVocab = 37;
using Tokens = std::vector<int32_t>;
using Row = std::vector<float>;

Row rows_of(Engine& engine, Cache& cache, const Tokens& tokens, int n_logits) {
  Row out(static_cast<size_t>(n_logits) * kVocab);
  const Segment segment{&cache, tokens.data(), static_cast<int>(tokens.size()), n_logits};
  engine.forward(&segment, 1, out.data());
  return out;
}

// Last rows of streams, computed one token at a time by the definition, each from the beginning.
class Truth {
 public:
  explicit Truth(const std::shared_ptr<const Model>& model)
      : engine_(model, *maglio::find_kernels("portable"), 1) {}

  const Row& of(const Tokens& tokens) {
    const auto found = known_.find(tokens);
    if (found != known_.end()) return found->second;
    const std::shared_ptr<Cache> cache = engine_.new_cache(256);
    Row row;
    for (int32_t token : tokens) row = rows_of(engine_, *cache, {token}, 1);
    return known_.emplace(tokens, std::move(row)).first->second;
  }

 private:
  Engine engine_;
  std::map<Tokens, Row> known_;
};

struct Stream {
  std::shared_ptr<Cache> cache;
  Tokens tokens;
};

void whatever_is_taken_back_rows_are_those_from_scratch() {
  const std::shared_ptr<const Model> model =
      small_model::make(TensorType::kQ8_0, small_model::hybrid_spec());
  Truth truth(model);
  std::mt19937 rng(7);
  const auto below = [&rng](int n) { return static_cast<int>(rng() % static_cast<uint32_t>(n)); };
  for (const Kernels* kernels : maglio::available_kernels()) {
    for (int threads : {1, 2}) {
      Engine engine(model, *kernels, threads);
      std::vector<Stream> streams(3);
      for (Stream& stream : streams) stream.cache = engine.new_cache(40);
      for (int step = 0; step < 120; ++step) {
        Stream& stream = streams[static_cast<size_t>(below(3))];
        Cache& cache = *stream.cache;
        const int length = cache.length();
        const int action = below(8);
        if (action == 0) {
          const int kept = cache.truncate(below(length + 1));
          stream.tokens.resize(static_cast<size_t>(kept));
        } else if (action == 1) {
          cache.keep();
        } else if (action == 2) {
          const int at = cache.floor() + below(length - cache.floor() + 1);
          Stream& heir = streams[static_cast<size_t>(below(3))];
          heir = {cache.fork(at), Tokens(stream.tokens.begin(), stream.tokens.begin() + at)};
        } else if (length < 30) {
          const int n = 1 + below(9), n_logits = below(n + 1);
          Tokens fed;
          for (int i = 0; i < n; ++i) fed.push_back(below(2));
          const Row rows = rows_of(engine, cache, fed, n_logits);
          stream.tokens.insert(stream.tokens.end(), fed.begin(), fed.end());
          for (int i = 0; i < n_logits; ++i) {
            const Tokens prefix(stream.tokens.begin(), stream.tokens.end() - (n_logits - 1 - i));
            const Row& expected = truth.of(prefix);
            CHECK(std::memcmp(rows.data() + static_cast<size_t>(i) * kVocab, expected.data(),
                              kVocab * sizeof(float)) == 0);
          }
          // A draft of which some stand.
          const int kept = length + 1 + below(n);
          if (kept >= cache.floor()) {
            CHECK(cache.truncate(kept) == kept);
            stream.tokens.resize(static_cast<size_t>(kept));
          }
        }
        CHECK(stream.cache->length() == static_cast<int>(stream.tokens.size()));
      }
      streams.clear();
      CHECK(engine.cache_bytes() == 0);
    }
  }
}

// Every amount of memory up to what is enough: a refused forward changes nothing.
void a_forward_without_memory_changes_nothing() {
  const std::shared_ptr<const Model> model =
      small_model::make(TensorType::kF32, small_model::hybrid_spec());
  Engine probe(model, *maglio::find_kernels(""), 1);
  const size_t page = probe.pages().page_bytes();
  const size_t state = probe.recurrent().state_bytes(), row = probe.recurrent().row_bytes();
  const Tokens first = {1, 2, 3, 4, 5}, second = {6, 7};
  const std::shared_ptr<Cache> whole = probe.new_cache(16);
  rows_of(probe, *whole, first, 1);
  const Row expected = rows_of(probe, *whole, second, 2);
  const size_t enough = 3 * page + 6 * state + 16 * row;
  int done = 0;
  for (size_t budget = page; budget <= enough; budget += row) {
    Engine engine(model, *maglio::find_kernels(""), 1, maglio::CacheType::kF16, budget);
    const std::shared_ptr<Cache> one = engine.new_cache(16), two = engine.new_cache(16);
    try {
      rows_of(engine, *one, first, 1);
    } catch (const maglio::OutOfPages&) {
      CHECK(one->length() == 0 && one->floor() == 0 && engine.cache_bytes() == 0);
      continue;
    }
    const size_t used = engine.cache_bytes();
    std::vector<float> out(2 * kVocab);
    const Segment batch[] = {{two.get(), first.data(), 5, 0}, {one.get(), second.data(), 2, 2}};
    try {
      engine.forward(batch, 2, out.data());
      ++done;
    } catch (const maglio::OutOfPages&) {
      CHECK(one->length() == 5 && two->length() == 0 && engine.cache_bytes() == used);
      try {
        out = rows_of(engine, *one, second, 2);
      } catch (const maglio::OutOfPages&) {
        continue;
      }
    }
    CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
  }
  CHECK(done > 0);
}

// More threads than a cache is for: they wait for each other, and nothing is torn.
void threads_that_share_a_cache_wait_for_each_other() {
  const std::shared_ptr<const Model> model =
      small_model::make(TensorType::kQ8_0, small_model::hybrid_spec());
  Engine engine(model, *maglio::find_kernels(""), 2);
  const std::shared_ptr<Cache> cache = engine.new_cache(40);
  const auto hammer = [&](int n) {
    const Tokens tokens(static_cast<size_t>(n), 1);
    for (int i = 0; i < 60; ++i) {
      try {
        rows_of(engine, *cache, tokens, n - 1);
        if (i % 3 == 0) cache->keep();
        if (i % 4 == 0) cache->fork(cache->length())->truncate(0);
        if (i % 5 == 0) cache->truncate(std::max(0, cache->length() - 2));
      } catch (const maglio::ContextFull&) {
        try {
          cache->truncate(std::min(cache->length(), 9));
        } catch (const maglio::InvalidInput&) {
        }
      } catch (const maglio::InvalidInput&) {  // another thread was quicker
      }
    }
  };
  std::vector<std::thread> threads;
  for (int n : {1, 3, 8}) threads.emplace_back(hammer, n);
  for (std::thread& thread : threads) thread.join();
  cache->truncate(0);
  const Tokens all(30, 1);
  Truth truth(model);
  const Row last = rows_of(engine, *cache, all, 1);
  CHECK(std::memcmp(last.data(), truth.of(all).data(), last.size() * sizeof(float)) == 0);
}

void strange_shapes_do_not_pass_their_check() {
  for (int strange : {0, -1, 1 << 26, 0x7FFFFFFF}) {
    for (int maglio::DeltaNetSpec::* part :
         {&maglio::DeltaNetSpec::n_key_head, &maglio::DeltaNetSpec::n_value_head,
          &maglio::DeltaNetSpec::head_dim, &maglio::DeltaNetSpec::n_taps}) {
      maglio::ModelSpec spec = small_model::hybrid_spec();
      std::get<maglio::DeltaNetSpec>(spec.layers[0].mixer).*part = strange;
      CHECK(!spec.check().empty());
    }
    for (int maglio::ShortConvSpec::* part :
         {&maglio::ShortConvSpec::channels, &maglio::ShortConvSpec::n_taps}) {
      maglio::ModelSpec spec = small_model::hybrid_spec();
      std::get<maglio::ShortConvSpec>(spec.layers[1].mixer).*part = strange;
      CHECK(!spec.check().empty());
    }
  }
  maglio::ModelSpec spec = small_model::hybrid_spec();
  spec.layers.pop_back();
  CHECK(spec.check() == "models without attention are not supported");
  const std::shared_ptr<Model> model =
      small_model::make(TensorType::kF32, small_model::hybrid_spec());
  std::get<maglio::ShortConv>(model->layers[1].mixer).conv = maglio::Taps(64, 2);
  CHECK(model->check() == "tensor 'blk.1.shortconv.conv.weight' is 64 x 2, expected 64 x 3");
}

}  // namespace

int main() {
  whatever_is_taken_back_rows_are_those_from_scratch();
  a_forward_without_memory_changes_nothing();
  threads_that_share_a_cache_wait_for_each_other();
  strange_shapes_do_not_pass_their_check();
  std::puts("recurrent: ok");
  return 0;
}

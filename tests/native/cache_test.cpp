// Pages and caches: who may write where, and what memory is in use.
#include "engine/cache.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/errors.h"

namespace {

using maglio::Cache;
using maglio::kPagePositions;
using maglio::PageLayout;
using maglio::PagePool;
using maglio::PageRef;

constexpr int kHeadDim = 16;

struct Room {
  explicit Room(size_t pages)
      : layout(std::make_shared<PageLayout>(spec())),
        pool(std::make_shared<PagePool>(layout->page_bytes(), pages * layout->page_bytes())) {}

  static maglio::ModelSpec spec() {
    maglio::AttentionSpec attention;
    attention.n_kv_head = 3;
    attention.head_dim = kHeadDim;
    maglio::ModelSpec spec;
    spec.layers.resize(2);
    for (maglio::LayerSpec& layer : spec.layers) layer.mixer = attention;
    return spec;
  }
  std::shared_ptr<Cache> cache(int n_ctx = 1000) const {
    return std::make_shared<Cache>(layout, pool, n_ctx);
  }
  size_t pages_lent() const { return pool->bytes_lent() / layout->page_bytes(); }

  std::shared_ptr<const PageLayout> layout;
  std::shared_ptr<PagePool> pool;
};

// Appends positions that hold `mark` in every layer and head.
void append(Cache& cache, int n, uint16_t mark) {
  cache.reserve(n);
  const std::vector<uint16_t> row(kHeadDim, mark);
  for (int i = 0; i < n; ++i) {
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < 3; ++head) {
        cache.put_key(layer, head, cache.length() + i, row.data());
        cache.put_value(layer, head, cache.length() + i, row.data());
      }
    }
  }
  cache.extend(n);
}

// Whether a position holds `mark` everywhere.
bool holds(const Cache& cache, int position, uint16_t mark) {
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      const maglio::CacheHead at = cache.head(layer, head);
      const uint16_t* page = at.pages[position / kPagePositions];
      const int within = position % kPagePositions, tile = within / maglio::kKeyTile;
      for (int d = 0; d < kHeadDim; ++d) {
        const uint16_t key =
            page[at.keys + (tile * kHeadDim + d) * maglio::kKeyTile + within % maglio::kKeyTile];
        if (key != mark || page[at.values + within * kHeadDim + d] != mark) return false;
      }
    }
  }
  return true;
}

template <typename Error, typename Function>
bool refused(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return std::strlen(error.what()) > 40;
  }
  return false;
}

void a_pool_counts_what_it_lends() {
  PagePool pool(4096, 3 * 4096);
  CHECK(pool.lend(0).empty() && pool.bytes_lent() == 0);
  std::vector<PageRef> loan = pool.lend(2);
  CHECK(pool.bytes_lent() == 2 * 4096);
  CHECK(refused<maglio::OutOfPages>([&] { pool.lend(2); }));
  CHECK(refused<std::bad_alloc>([&] { pool.lend(static_cast<size_t>(-1)); }));
  CHECK(pool.bytes_lent() == 2 * 4096);
  PageRef again = loan[0];
  CHECK(again.is_shared() && loan[0].is_shared() && !loan[1].is_shared());
  CHECK(pool.bytes_lent() == 2 * 4096);
  loan.clear();
  CHECK(pool.bytes_lent() == 4096 && !again.is_shared());
  again = PageRef();
  CHECK(pool.bytes_lent() == 0);
}

void a_page_that_comes_back_is_lent_again() {
  PagePool pool(4096, 0);
  uint16_t* const memory = pool.lend(1)[0].data();
  memory[0] = 7;
  CHECK(pool.lend(1)[0].data() == memory);
  std::vector<PageRef> many = pool.lend(100);
  many.clear();  // more than are kept
  CHECK(pool.bytes_lent() == 0);
}

void a_cache_takes_memory_as_it_grows_and_gives_it_back() {
  const Room room(4);
  const std::shared_ptr<Cache> cache = room.cache();
  CHECK(room.pages_lent() == 0 && cache->bytes() == 0);
  append(*cache, 1, 1);
  CHECK(room.pages_lent() == 1);
  append(*cache, 63, 1);
  CHECK(room.pages_lent() == 1);
  append(*cache, 65, 1);
  CHECK(room.pages_lent() == 3 && cache->bytes() == room.pool->bytes_lent());
  CHECK(cache->truncate(128) == 128 && room.pages_lent() == 2);
  CHECK(cache->truncate(65) == 65 && room.pages_lent() == 2);
  cache->reserve(120);
  CHECK(room.pages_lent() == 3 && cache->length() == 65);
  CHECK(refused<maglio::OutOfPages>([&] { cache->reserve(200); }));
  CHECK(refused<maglio::ContextFull>([&] { cache->reserve(936); }));
  CHECK(refused<maglio::ContextFull>([&] { cache->reserve(-1); }));
  CHECK(cache->length() == 65 && room.pages_lent() == 3);
  CHECK(cache->truncate(65) == 65 && room.pages_lent() == 2);  // what was only reserved
  CHECK(cache->truncate(0) == 0 && room.pages_lent() == 0);
}

// Forked anywhere around a border of pages, both sides go on and neither sees the other.
void forks_do_not_see_each_other() {
  for (int offset = 0; offset <= 2 * kPagePositions; ++offset) {
    const Room room(0);
    const std::shared_ptr<Cache> cache = room.cache();
    append(*cache, 2 * kPagePositions + 3, 1);
    const std::shared_ptr<Cache> fork = cache->fork(offset);
    CHECK(fork->length() == offset && fork->floor() == 0 && fork->n_ctx() == 1000);
    CHECK(room.pages_lent() == 3);
    append(*fork, 70, 2);
    const std::shared_ptr<Cache> third = fork->fork(offset + 1);
    append(*cache, 70, 3);
    append(*third, 70, 4);
    for (int i = 0; i < 2 * kPagePositions + 3; ++i) CHECK(holds(*cache, i, 1));
    CHECK(holds(*cache, 2 * kPagePositions + 3, 3));
    for (int i = 0; i < offset; ++i) CHECK(holds(*fork, i, 1) && holds(*third, i, 1));
    for (int i = offset; i < offset + 70; ++i) CHECK(holds(*fork, i, 2));
    CHECK(holds(*third, offset, 2));
    for (int i = offset + 1; i < offset + 71; ++i) CHECK(holds(*third, i, 4));
  }
}

void a_shared_page_is_copied_once_and_by_whoever_writes_first() {
  const Room room(2);
  std::shared_ptr<Cache> cache = room.cache();
  append(*cache, 10, 1);
  std::shared_ptr<Cache> fork = cache->fork(10), third = cache->fork(4);
  CHECK(room.pages_lent() == 1);
  append(*fork, 1, 2);
  CHECK(room.pages_lent() == 2);
  // There is no page left to copy to, and nothing changes.
  CHECK(refused<maglio::OutOfPages>([&] { append(*cache, 1, 3); }));
  CHECK(cache->length() == 10 && holds(*cache, 9, 1));
  third.reset();
  append(*cache, 1, 3);  // now its own
  CHECK(room.pages_lent() == 2 && holds(*cache, 10, 3) && holds(*fork, 10, 2));
  cache.reset();
  CHECK(room.pages_lent() == 1);
  fork.reset();
  CHECK(room.pages_lent() == 0);
}

void forks_in_many_threads() {
  const Room room(0);
  const std::shared_ptr<Cache> cache = room.cache();
  append(*cache, 100, 1);
  const auto work = [&](uint16_t mark) {
    for (int i = 0; i < 100; ++i) {
      const std::shared_ptr<Cache> fork = cache->fork(i);
      append(*fork, 30, mark);
      CHECK(i == 0 || holds(*fork, i - 1, 1));
      CHECK(holds(*fork, i, mark) && holds(*fork, i + 29, mark));
      fork->truncate(i / 2);
    }
  };
  std::vector<std::thread> threads;
  for (uint16_t mark = 2; mark < 5; ++mark) threads.emplace_back(work, mark);
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 100; ++i) CHECK(holds(*cache, i, 1));
  CHECK(room.pages_lent() == 2);
}

}  // namespace

int main() {
  a_pool_counts_what_it_lends();
  a_page_that_comes_back_is_lent_again();
  a_cache_takes_memory_as_it_grows_and_gives_it_back();
  forks_do_not_see_each_other();
  a_shared_page_is_copied_once_and_by_whoever_writes_first();
  forks_in_many_threads();
  std::puts("cache: ok");
  return 0;
}

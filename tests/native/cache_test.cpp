// Pages and caches: who may write where, and what memory is in use.
#include "engine/cache.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/errors.h"
#include "gguf/half.h"

namespace {

using maglio::Cache;
using maglio::CacheType;
using maglio::kKeyTile;
using maglio::kPagePositions;
using maglio::PageLayout;
using maglio::PagePool;
using maglio::PageRef;

constexpr int kHeadDim = 48;  // a block of 32 values and half a one
constexpr CacheType kTypes[] = {CacheType::kF16, CacheType::kQ8_0};

struct Room {
  explicit Room(size_t pages, CacheType type = CacheType::kF16)
      : layout(std::make_shared<PageLayout>(spec(), type)),
        pool(std::make_shared<PagePool>(layout->page_bytes(), pages * layout->page_bytes())),
        recurrent(std::make_shared<maglio::RecurrentMemory>(
            spec(), std::make_shared<maglio::Account>(0))) {}

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
    return std::make_shared<Cache>(layout, pool, recurrent, n_ctx);
  }
  size_t pages_lent() const { return pool->bytes_lent() / layout->page_bytes(); }

  std::shared_ptr<const PageLayout> layout;
  std::shared_ptr<PagePool> pool;
  std::shared_ptr<maglio::RecurrentMemory> recurrent;
};

// Both types hold these exactly: every block has 127 times a half.
float value_of(int mark, int d) { return static_cast<float>((d % 16 == 0 ? 127 : d) * mark); }

// Appends positions that hold `mark` in every layer and head.
void append(Cache& cache, int n, int mark) {
  const maglio::Kernels& kernels = *maglio::find_kernels("");
  cache.reserve(n);
  float row[kHeadDim];
  for (int d = 0; d < kHeadDim; ++d) row[d] = value_of(mark, d);
  for (int i = 0; i < n; ++i) {
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < 3; ++head) {
        kernels.keep_key(cache.head(layer, head), kHeadDim, cache.length() + i, row);
        kernels.keep_value(cache.head(layer, head), kHeadDim, cache.length() + i, row);
      }
    }
  }
  cache.extend(n);
}

float half_at(const uint8_t* base, int index) {
  uint16_t half;
  std::memcpy(&half, base + 2 * index, sizeof(half));
  return maglio::half_to_float(half);
}

// A value of a key, or of a value, as the headers of the kernels say where it is.
float kept(const maglio::CacheHead& at, bool is_key, int position, int d) {
  const int tile = position % kPagePositions / kKeyTile, lane = position % kKeyTile;
  const uint8_t* base = at.pages[position / kPagePositions] + (is_key ? at.keys : at.values) +
                        maglio::cache_tile_bytes(at.type, kHeadDim) * static_cast<size_t>(tile);
  if (at.type == CacheType::kF16) {
    return half_at(base, is_key ? d * kKeyTile + lane : lane * kHeadDim + d);
  }
  const float scale = half_at(base + kHeadDim * kKeyTile, d / 32 * kKeyTile + lane);
  const int code =
      is_key ? base[(d / 4 * kKeyTile + lane) * 4 + d % 4] - 128
             : static_cast<int8_t>(base[d / 16 * 256 + (lane / 2 * 16 + d % 16) * 2 + lane % 2]);
  return scale * static_cast<float>(code);
}

// Whether a position holds `mark` everywhere.
bool holds(const Cache& cache, int position, int mark) {
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      const maglio::CacheHead at = cache.head(layer, head);
      for (int d = 0; d < kHeadDim; ++d) {
        const float value = value_of(mark, d);
        if (kept(at, true, position, d) != value || kept(at, false, position, d) != value) {
          return false;
        }
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
  uint8_t* const memory = pool.lend(1)[0].data();
  memory[0] = 7;
  CHECK(pool.lend(1)[0].data() == memory);
  std::vector<PageRef> many = pool.lend(100);
  many.clear();  // more than are kept
  CHECK(pool.bytes_lent() == 0);
}

void a_cache_takes_memory_as_it_grows_and_gives_it_back() {
  const Room room(4);
  const std::shared_ptr<Cache> cache = room.cache();
  CHECK(room.pages_lent() == 0 && cache->pages().empty());
  append(*cache, 1, 1);
  CHECK(room.pages_lent() == 1);
  append(*cache, 63, 1);
  CHECK(room.pages_lent() == 1);
  append(*cache, 65, 1);
  CHECK(room.pages_lent() == 3 && cache->pages().size() == 3);
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
void forks_do_not_see_each_other(CacheType type) {
  for (int offset = 0; offset <= 2 * kPagePositions; ++offset) {
    const Room room(0, type);
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
  const auto work = [&](int mark) {
    for (int i = 0; i < 100; ++i) {
      const std::shared_ptr<Cache> fork = cache->fork(i);
      append(*fork, 30, mark);
      CHECK(i == 0 || holds(*fork, i - 1, 1));
      CHECK(holds(*fork, i, mark) && holds(*fork, i + 29, mark));
      fork->truncate(i / 2);
    }
  };
  std::vector<std::thread> threads;
  for (int mark = 2; mark < 5; ++mark) threads.emplace_back(work, mark);
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 100; ++i) CHECK(holds(*cache, i, 1));
  CHECK(room.pages_lent() == 2);
}

// 8-bit codes are the nearest ones, and what is not finite is kept as that, on every set of
// kernels.
void codes_are_those_of_q8_0() {
  constexpr int kPosition = 70;
  for (const maglio::Kernels* kernels : maglio::available_kernels()) {
    const Room room(0, CacheType::kQ8_0);
    const std::shared_ptr<Cache> cache = room.cache();
    cache->reserve(100);
    const maglio::CacheHead head = cache->head(1, 2);
    float row[kHeadDim];
    for (int d = 0; d < kHeadDim; ++d) row[d] = std::sin(static_cast<float>(7 * d + 1));
    for (int round = 0; round < 2; ++round) {
      kernels->keep_key(head, kHeadDim, kPosition, row);
      kernels->keep_value(head, kHeadDim, kPosition, row);
      for (int d = 0; d < kHeadDim; ++d) {
        float largest = 0;
        for (int i = d / 32 * 32; i < kHeadDim && i < d / 32 * 32 + 32; ++i) {
          largest = std::max(largest, std::fabs(row[i]));
        }
        const float scale = maglio::half_to_float(maglio::float_to_half(largest / 127.0f));
        const float code = std::nearbyintf(row[d] * (127.0f / largest));
        CHECK(kept(head, true, kPosition, d) == scale * code);
        CHECK(kept(head, false, kPosition, d) == scale * code);
      }
      for (float& x : row) x *= 1e-4f;  // scales below the normal halves
    }
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e9f}) {
      for (float& x : row) x = 0.5f;
      row[40] = bad;
      kernels->keep_key(head, kHeadDim, kPosition, row);
      kernels->keep_value(head, kHeadDim, kPosition, row);
      CHECK(!std::isfinite(kept(head, true, kPosition, 40)));
      CHECK(!std::isfinite(kept(head, false, kPosition, 40)));
      CHECK(std::fabs(kept(head, true, kPosition, 31) - 0.5f) < 1e-3f);
    }
  }
}

// A value that is not finite makes its block's outputs NaN where it is seen, and nowhere else.
void what_is_not_finite_reaches_who_sees_it() {
  for (const maglio::Kernels* kernels : maglio::available_kernels()) {
    const Room room(0, CacheType::kQ8_0);
    const std::shared_ptr<Cache> cache = room.cache();
    append(*cache, 90, 1);
    float row[kHeadDim];
    for (float& x : row) x = 0.5f;
    row[40] = std::numeric_limits<float>::infinity();
    const maglio::CacheHead head = cache->head(0, 0);
    kernels->keep_value(head, kHeadDim, 80, row);
    float query[kHeadDim] = {1.0f}, seen[kHeadDim], unseen[kHeadDim];
    const maglio::AttentionQuery queries[] = {{query, seen, 0, 81}, {query, unseen, 0, 80}};
    kernels->attend(head, kHeadDim, 0.0f, queries, 2);
    for (int d = 0; d < kHeadDim; ++d) {
      CHECK(std::isfinite(unseen[d]));
      CHECK(std::isfinite(seen[d]) == (d < 32));
    }
  }
}

}  // namespace

int main() {
  a_pool_counts_what_it_lends();
  a_page_that_comes_back_is_lent_again();
  a_cache_takes_memory_as_it_grows_and_gives_it_back();
  for (CacheType type : kTypes) forks_do_not_see_each_other(type);
  codes_are_those_of_q8_0();
  what_is_not_finite_reaches_who_sees_it();
  a_shared_page_is_copied_once_and_by_whoever_writes_first();
  forks_in_many_threads();
  std::puts("cache: ok");
  return 0;
}

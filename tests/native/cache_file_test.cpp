// Caches in a file: exact when they come back, and every damage refused, for runs under sanitizers.
#include "engine/cache_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "checksum/xxhash64.h"
#include "small_model.h"

namespace {

using maglio::Cache;
using maglio::CacheFileError;
using maglio::CacheType;
using maglio::Engine;
using maglio::Model;
using maglio::SavedCache;
using maglio::Segment;
using maglio::TensorType;

constexpr size_t kVocab = 37, kHeader = 104, kChecked = 24;
constexpr uint64_t kKey = 7;
constexpr size_t kPlenty = size_t{1} << 40;
using Tokens = std::vector<int32_t>;
using Bytes = std::vector<uint8_t>;

std::mt19937 rng(20261201);

int below(size_t n) { return static_cast<int>(rng() % static_cast<uint32_t>(n)); }

// A file without a name.
class Scratch {
 public:
  explicit Scratch(const Bytes& bytes = {}) : descriptor_(memfd_create("caches", 0)) {
    CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  }
  ~Scratch() { ::close(descriptor_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  int descriptor() const { return descriptor_; }
  Bytes bytes() const {
    struct stat status{};
    CHECK(::fstat(descriptor_, &status) == 0);
    Bytes out(static_cast<size_t>(status.st_size));
    CHECK(::pread(descriptor_, out.data(), out.size(), 0) == static_cast<ssize_t>(out.size()));
    return out;
  }

 private:
  int descriptor_;
};

std::vector<float> rows_of(Engine& engine, Cache& cache, const Tokens& tokens, int n_logits) {
  std::vector<float> out(static_cast<size_t>(n_logits) * kVocab);
  const Segment segment{&cache, tokens.data(), static_cast<int>(tokens.size()), n_logits};
  engine.forward(&segment, 1, out.data());
  return out;
}

Tokens random_tokens(size_t n) {
  Tokens out(n);
  for (int32_t& token : out) token = below(kVocab);
  return out;
}

// Forks of each other, cut back and not, and a stream of its own. Recurrent layers with random
// weights leave the finite numbers after some 50 positions.
std::vector<SavedCache> some_caches(Engine& engine) {
  const int length = engine.recurrent().empty() ? 90 : 20;
  Tokens tokens = random_tokens(static_cast<size_t>(length));
  const std::shared_ptr<Cache> first = engine.new_cache(200);
  rows_of(engine, *first, tokens, 1);
  const std::shared_ptr<Cache> second = first->fork(length);
  const Tokens more = random_tokens(9);
  rows_of(engine, *second, more, 5);
  CHECK(second->truncate(length + 7) == length + 7);
  const std::shared_ptr<Cache> third = engine.new_cache(200);
  rows_of(engine, *third, {1, 2}, 2);
  SavedCache one{{}, tokens, first}, three{{}, {1, 2}, third};
  tokens.insert(tokens.end(), more.begin(), more.begin() + 7);
  one.owner[31] = 9;
  return {one, {{}, tokens, second}, three};
}

struct Kind {
  maglio::ModelSpec spec;
  CacheType type;
};

std::vector<Kind> kinds() {
  return {{small_model::spec(), CacheType::kF16},
          {small_model::spec(), CacheType::kQ8_0},
          {small_model::hybrid_spec(), CacheType::kF16}};
}

std::unique_ptr<Engine> engine_of(const Kind& kind, size_t budget = 0) {
  return std::make_unique<Engine>(small_model::make(TensorType::kQ8_0, kind.spec),
                                  *maglio::find_kernels(""), 2, kind.type, budget);
}

Bytes written(const Engine& engine, const std::vector<SavedCache>& caches) {
  const Scratch file;
  maglio::write_caches(engine, kKey, caches, file.descriptor());
  return file.bytes();
}

std::vector<SavedCache> read(const Engine& engine, const Bytes& bytes, int n_ctx = 200,
                             size_t max_bytes = kPlenty, uint64_t key = kKey) {
  const Scratch file(bytes);
  return maglio::read_caches(engine, key, n_ctx, max_bytes, file.descriptor());
}

bool refused(const Engine& engine, const Bytes& bytes, uint64_t key = kKey) {
  const size_t before = engine.cache_bytes();
  try {
    read(engine, bytes, 200, kPlenty, key);
  } catch (const CacheFileError& error) {
    CHECK(std::strlen(error.what()) > 20);
    CHECK(engine.cache_bytes() == before);
    return true;
  }
  return false;
}

void caches_come_back_as_they_were() {
  for (const Kind& kind : kinds()) {
    const std::unique_ptr<Engine> engine = engine_of(kind);
    const std::vector<SavedCache> saved = some_caches(*engine);
    const std::vector<SavedCache> back = read(*engine, written(*engine, saved));
    CHECK(back.size() == saved.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      CHECK(back[i].owner == saved[i].owner && back[i].tokens == saved[i].tokens);
      CHECK(back[i].cache->length() == saved[i].cache->length());
      CHECK(back[i].cache->floor() == saved[i].cache->floor());
      const Tokens more = random_tokens(12);
      for (int cut : {back[i].cache->length(), back[i].cache->floor()}) {
        const auto one = saved[i].cache->fork(cut), other = back[i].cache->fork(cut);
        const std::vector<float> rows = rows_of(*engine, *one, more, 9);
        CHECK(rows == rows_of(*engine, *other, more, 9));  // and so no NaN
      }
    }
    CHECK(written(*engine, back) == written(*engine, saved));
  }
}

void what_caches_share_is_there_once() {
  const std::unique_ptr<Engine> engine = engine_of(kinds()[0]);
  const std::vector<SavedCache> saved = some_caches(*engine);
  const size_t before = engine->cache_bytes();
  const std::vector<SavedCache> back = read(*engine, written(*engine, saved));
  CHECK(engine->cache_bytes() == 2 * before);
  CHECK(before == 4 * engine->pages().page_bytes());
}

void only_as_much_is_read_as_there_is_room_for() {
  const Kind kind = kinds()[0];
  const std::unique_ptr<Engine> engine = engine_of(kind);
  const Bytes bytes = written(*engine, some_caches(*engine));
  const size_t page = engine->pages().page_bytes();
  CHECK(read(*engine, bytes, 200, 4 * page - 1).size() == 2);
  CHECK(read(*engine, bytes, 200, 3 * page - 1).size() == 1);
  CHECK(read(*engine, bytes, 200, 2 * page - 1).empty());
  CHECK(read(*engine, bytes, 96).size() == 2);
  CHECK(read(*engine, bytes, 1).empty());
  const std::unique_ptr<Engine> little = engine_of(kind, 3 * page);
  CHECK(read(*little, bytes).size() == 2);
  CHECK(little->cache_bytes() == 0);
}

void what_cannot_be_written_is_refused() {
  const std::unique_ptr<Engine> engine = engine_of(kinds()[0]), other = engine_of(kinds()[0]);
  std::vector<SavedCache> saved = some_caches(*engine);
  const auto fails = [&saved](const Engine& of) {
    try {
      written(of, saved);
    } catch (const maglio::InvalidInput&) {
      return true;
    }
    return false;
  };
  CHECK(fails(*other) && !fails(*engine));
  saved[1].tokens.pop_back();
  CHECK(fails(*engine));
  bool failed = false;
  try {
    maglio::write_caches(*engine, kKey, {}, -1);
  } catch (const CacheFileError&) {
    failed = true;
  }
  CHECK(failed);
}

void every_damage_is_refused() {
  for (const Kind& kind : kinds()) {
    const std::unique_ptr<Engine> engine = engine_of(kind);
    const Bytes bytes = written(*engine, some_caches(*engine));
    CHECK(!refused(*engine, bytes));
    CHECK(refused(*engine, bytes, kKey + 1));
    for (int i = 0; i < 600; ++i) {
      Bytes damaged = bytes;
      // Every byte of the header, and others anywhere.
      const size_t at = i < static_cast<int>(kHeader) ? static_cast<size_t>(i)
                                                      : static_cast<size_t>(below(bytes.size()));
      damaged[at] = static_cast<uint8_t>(damaged[at] ^ (1 + below(255)));
      CHECK(refused(*engine, damaged));
      damaged = bytes;
      damaged.resize(static_cast<size_t>(below(bytes.size())));
      CHECK(refused(*engine, damaged));
    }
  }
}

uint64_t load(const Bytes& bytes, size_t at) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The same file with the checksum that its header and index ask for.
void put_checksum(Bytes& bytes) {
  const size_t index = std::min<uint64_t>(load(bytes, 40), bytes.size() - kHeader);
  const uint64_t head = maglio::xxhash64(bytes.data() + kChecked, kHeader - kChecked, 0);
  const uint64_t sum = maglio::xxhash64(bytes.data() + kHeader, index, head);
  std::memcpy(bytes.data() + 16, &sum, sizeof(sum));
}

void whatever_a_right_checksum_vouches_for_is_refused_or_harmless() {
  constexpr uint32_t kStrange[] = {0,  1,          2,          63,         64,
                                   65, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1u << 20};
  for (const Kind& kind : kinds()) {
    const std::unique_ptr<Engine> engine = engine_of(kind);
    const Bytes bytes = written(*engine, some_caches(*engine));
    const size_t checked = kHeader + static_cast<size_t>(load(bytes, 40));
    int harmless = 0;
    for (int i = 0; i < 1500; ++i) {
      Bytes hostile = bytes;
      for (int n = 1 + below(3); n > 0; --n) {
        const size_t words = (checked - kChecked) / 4;
        const size_t at = kChecked + 4 * static_cast<size_t>(below(words));
        const uint32_t value = i % 2 == 0 ? kStrange[below(10)] : rng() % 100;
        std::memcpy(hostile.data() + at, &value, sizeof(value));
      }
      put_checksum(hostile);
      try {
        for (const SavedCache& each : read(*engine, hostile)) {
          const std::shared_ptr<Cache> fork = each.cache->fork(each.cache->length());
          rows_of(*engine, *fork, {1, 2, 3}, 2);
          fork->keep();
          fork->truncate(fork->floor());
          rows_of(*engine, *fork, {4}, 1);
          fork->truncate(0);
        }
        ++harmless;
      } catch (const CacheFileError&) {
      }
    }
    CHECK(harmless > 0);
  }
}

}  // namespace

int main() {
  caches_come_back_as_they_were();
  what_caches_share_is_there_once();
  only_as_much_is_read_as_there_is_room_for();
  what_cannot_be_written_is_refused();
  every_damage_is_refused();
  whatever_a_right_checksum_vouches_for_is_refused_or_harmless();
  std::puts("cache file: ok");
  return 0;
}

#include "engine/cache_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "checksum/xxhash64.h"

namespace maglio {
namespace {

constexpr char kMagic[8] = {'M', 'A', 'G', 'L', 'I', 'O', 'K', 'V'};
constexpr uint32_t kByteOrder = 0x01020304u;
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMaxRecords = uint64_t{256} << 20;
constexpr uint64_t kMaxIndex = 4 * kMaxRecords;  // a page has 8 bytes of sums, and at least an id
constexpr size_t kMaxIo = size_t{8} << 20;

// Pages of keys and values, of states, and of inputs of recurrent layers.
constexpr size_t kKinds = 3;
constexpr size_t kKeys = 0, kStates = 1, kRows = 2;

struct Header {
  char magic[8];
  uint32_t byte_order;
  uint32_t version;
  uint64_t checksum;  // of everything below and the index
  uint64_t key;
  uint64_t file_bytes;
  uint64_t index_bytes;
  uint64_t page_bytes[kKinds];
  uint64_t n_pages[kKinds];
  uint32_t cache_type;
  uint32_t n_caches;
};
static_assert(sizeof(Header) == 104, "the header is written as it lies in memory");

constexpr size_t kChecked = offsetof(Header, key);

// Before the ids of a cache in the index.
struct Record {
  std::array<uint8_t, 32> owner;
  uint32_t length;
  uint32_t floor;
};
static_assert(sizeof(Record) == 40, "records are written as they lie in memory");

uint64_t checksum(const Header& header, const std::vector<uint8_t>& index) {
  const uint8_t* head = reinterpret_cast<const uint8_t*>(&header);
  return xxhash64(index.data(), index.size(),
                  xxhash64(head + kChecked, sizeof(header) - kChecked, 0));
}

std::array<PagePool*, kKinds> pools_of(const Engine& engine) {
  RecurrentMemory& recurrent = engine.recurrent_memory();
  return {&engine.page_pool(), &recurrent.states, &recurrent.rows};
}

Header header_of(const Engine& engine, uint64_t key) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.byte_order = kByteOrder;
  header.version = kVersion;
  header.key = key;
  header.cache_type = static_cast<uint32_t>(engine.layout().type());
  const auto pools = pools_of(engine);
  for (size_t kind = 0; kind < kKinds; ++kind) header.page_bytes[kind] = pools[kind]->page_bytes();
  return header;
}

CacheFileError system_error(const char* what) {
  return CacheFileError(std::string(what) + ": " + std::strerror(errno));
}

void write_all(int descriptor, const void* data, size_t bytes) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor, p, std::min(bytes, kMaxIo));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw system_error("it cannot be written");
    p += done;
    bytes -= static_cast<size_t>(done);
  }
}

void read_all(int descriptor, void* data, size_t bytes, uint64_t at) {
  uint8_t* p = static_cast<uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pread(descriptor, p, std::min(bytes, kMaxIo), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw system_error("it cannot be read");
    if (done == 0) throw CacheFileError("it was cut short while it was read");
    p += done;
    at += static_cast<uint64_t>(done);
    bytes -= static_cast<size_t>(done);
  }
}

// --- Writing.

template <typename T>
void append(std::vector<uint8_t>& out, const T* values, size_t n) {
  const uint8_t* p = reinterpret_cast<const uint8_t*>(values);
  out.insert(out.end(), p, p + n * sizeof(T));
}

// The pages of a kind in the order in which caches name them.
class Numbered {
 public:
  uint32_t number(const PageRef& page) {
    const auto [found, is_new] =
        numbers_.emplace(page.data(), static_cast<uint32_t>(pages_.size()));
    if (is_new) pages_.push_back(page);
    return found->second;
  }
  const std::vector<PageRef>& pages() const { return pages_; }

 private:
  std::unordered_map<const uint8_t*, uint32_t> numbers_;
  std::vector<PageRef> pages_;
};

class Writer {
 public:
  Writer(const Engine& engine, uint64_t key) : engine_(engine), header_(header_of(engine, key)) {}

  // Whether there was room in the index.
  bool add(const SavedCache& saved) {
    const CacheParts parts = saved.cache->parts();
    if (!saved.cache->is_of(engine_.page_pool())) {
      throw InvalidInput("a cache is another engine's");
    }
    if (parts.length < 1 || saved.tokens.size() != static_cast<size_t>(parts.length)) {
      throw InvalidInput("a cache holds " + std::to_string(parts.length) + " positions and has " +
                         std::to_string(saved.tokens.size()) + " tokens");
    }
    const size_t ids = saved.tokens.size() + parts.pages.size() + parts.states.rows.size() + 1;
    if (records_.size() + sizeof(Record) + ids * sizeof(uint32_t) > kMaxRecords) return false;
    const Record record{saved.owner, static_cast<uint32_t>(parts.length),
                        static_cast<uint32_t>(parts.states.floor)};
    append(records_, &record, 1);
    append(records_, saved.tokens.data(), saved.tokens.size());
    for (const PageRef& page : parts.pages) name(kKeys, page);
    if (parts.states.state) name(kStates, parts.states.state);
    for (const PageRef& row : parts.states.rows) name(kRows, row);
    ++header_.n_caches;
    return true;
  }

  void write(int descriptor) {
    std::vector<uint8_t> index;
    uint64_t pages_bytes = 0;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const size_t bytes = static_cast<size_t>(header_.page_bytes[kind]);
      for (const PageRef& page : numbered_[kind].pages()) {
        const uint64_t sum = xxhash64(page.data(), bytes, 0);
        append(index, &sum, 1);
        pages_bytes += bytes;
      }
      header_.n_pages[kind] = numbered_[kind].pages().size();
    }
    append(index, records_.data(), records_.size());
    header_.index_bytes = index.size();
    header_.file_bytes = sizeof(header_) + index.size() + pages_bytes;
    header_.checksum = checksum(header_, index);
    write_all(descriptor, &header_, sizeof(header_));
    write_all(descriptor, index.data(), index.size());
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (const PageRef& page : numbered_[kind].pages()) {
        write_all(descriptor, page.data(), static_cast<size_t>(header_.page_bytes[kind]));
      }
    }
  }

 private:
  void name(size_t kind, const PageRef& page) {
    const uint32_t number = numbered_[kind].number(page);
    append(records_, &number, 1);
  }

  const Engine& engine_;
  Header header_;
  std::vector<uint8_t> records_;
  std::array<Numbered, kKinds> numbered_;
};

// --- Reading.

// What is wrong with the header, or an empty string.
std::string check_header(const Header& header, const Header& expected, uint64_t file_bytes) {
  if (std::memcmp(header.magic, expected.magic, sizeof(kMagic)) != 0) {
    return "it is not a file of caches";
  }
  if (header.byte_order != kByteOrder) return "it was written in another byte order";
  if (header.version != kVersion) {
    return "it has format version " + std::to_string(header.version) + ", this Maglio reads " +
           std::to_string(kVersion);
  }
  if (header.key != expected.key || header.cache_type != expected.cache_type ||
      std::memcmp(header.page_bytes, expected.page_bytes, sizeof(header.page_bytes)) != 0) {
    return "it was written for another model, precision of the cache or build of Maglio";
  }
  uint64_t bytes = sizeof(header), sums = 0;
  bool fits = header.file_bytes == file_bytes && header.index_bytes <= kMaxIndex;
  for (size_t kind = 0; kind < kKinds && fits; ++kind) {
    const uint64_t size = header.page_bytes[kind];
    fits = header.n_pages[kind] <= (size == 0 ? 0 : file_bytes / size);
    bytes += header.n_pages[kind] * size;
    sums += header.n_pages[kind] * sizeof(uint64_t);
  }
  if (!fits || bytes + header.index_bytes != file_bytes || sums > header.index_bytes) {
    return "it is damaged: it has " + std::to_string(file_bytes) +
           " bytes, which its header does not account for";
  }
  return "";
}

class Reader {
 public:
  Reader(const Engine& engine, uint64_t key, int n_ctx, size_t max_bytes, int descriptor)
      : engine_(engine), n_ctx_(n_ctx), left_(max_bytes), descriptor_(descriptor) {
    struct stat status{};
    if (::fstat(descriptor, &status) != 0) throw system_error("it cannot be read");
    const uint64_t bytes = static_cast<uint64_t>(std::max<off_t>(0, status.st_size));
    if (bytes < sizeof(header_)) throw CacheFileError("it is not a file of caches");
    read_all(descriptor, &header_, sizeof(header_), 0);
    const std::string problem = check_header(header_, header_of(engine, key), bytes);
    if (!problem.empty()) throw CacheFileError(problem);
    index_.resize(static_cast<size_t>(header_.index_bytes));
    read_all(descriptor, index_.data(), index_.size(), sizeof(header_));
    if (header_.checksum != checksum(header_, index_)) refuse("its index");
    uint64_t at = sizeof(header_) + header_.index_bytes;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const size_t n = static_cast<size_t>(header_.n_pages[kind]);
      pages_[kind].resize(n);
      sums_[kind] = take<uint64_t>(n);
      first_byte_[kind] = at;
      at += header_.n_pages[kind] * header_.page_bytes[kind];
    }
  }

  std::vector<SavedCache> read() {
    std::vector<SavedCache> caches;
    for (uint32_t i = 0; i < header_.n_caches; ++i) {
      const Description described = describe();
      if (described.record.length > static_cast<uint32_t>(n_ctx_)) continue;
      if (!load(described)) return caches;
      caches.push_back(assemble(described));
    }
    if (at_ != index_.size()) refuse("its index");
    return caches;
  }

 private:
  // A cache as the index has it, checked.
  struct Description {
    Record record;
    std::vector<int32_t> tokens;
    std::array<std::vector<uint32_t>, kKinds> numbers;
  };

  [[noreturn]] static void refuse(const std::string& what) {
    throw CacheFileError("it is damaged: " + what + " is not what was written");
  }

  template <typename T>
  std::vector<T> take(size_t n) {
    if (n > (index_.size() - at_) / sizeof(T)) refuse("its index");
    std::vector<T> values(n);
    if (n > 0) std::memcpy(values.data(), index_.data() + at_, n * sizeof(T));
    at_ += n * sizeof(T);
    return values;
  }

  Description describe() {
    Description out;
    out.record = take<Record>(1).front();
    const uint32_t length = out.record.length, floor = out.record.floor;
    if (length < 1 || length > 0x7FFFFFFF || floor > length) refuse("a length");
    out.tokens = take<int32_t>(length);
    const int n_vocab = engine_.model().spec.n_vocab;
    for (const int32_t token : out.tokens) {
      if (token < 0 || token >= n_vocab) refuse("a token");
    }
    const RecurrentLayout& layout = engine_.recurrent_memory().layout;
    if (layout.empty() && floor > 0) refuse("a floor");
    const size_t tail = static_cast<size_t>(layout.tail());
    const size_t first_row = floor - std::min<size_t>(floor, tail);
    const size_t n[kKinds] = {pages_of(static_cast<int>(length)),
                              floor > 0 && layout.state_bytes() > 0 ? size_t{1} : 0,
                              layout.empty() ? 0 : length - first_row};
    for (size_t kind = 0; kind < kKinds; ++kind) {
      out.numbers[kind] = take<uint32_t>(n[kind]);
      for (const uint32_t number : out.numbers[kind]) {
        if (number >= pages_[kind].size()) refuse("a page number");
      }
    }
    return out;
  }

  // Reads the pages that a cache needs beyond those that are there; false when there is no room.
  bool load(const Description& described) {
    std::array<std::vector<uint32_t>, kKinds> missing;
    size_t bytes = 0;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (const uint32_t number : described.numbers[kind]) {
        if (!pages_[kind][number]) missing[kind].push_back(number);
      }
      std::sort(missing[kind].begin(), missing[kind].end());
      missing[kind].erase(std::unique(missing[kind].begin(), missing[kind].end()),
                          missing[kind].end());
      bytes += missing[kind].size() * static_cast<size_t>(header_.page_bytes[kind]);
    }
    if (bytes > left_) return false;
    left_ -= bytes;
    const auto pools = pools_of(engine_);
    std::array<std::vector<PageRef>, kKinds> loans;
    try {
      for (size_t kind = 0; kind < kKinds; ++kind) {
        loans[kind] = pools[kind]->lend(missing[kind].size());
      }
    } catch (const OutOfPages&) {
      return false;
    }
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (size_t i = 0; i < missing[kind].size(); ++i) {
        fill(loans[kind][i], kind, missing[kind][i]);
        pages_[kind][missing[kind][i]] = std::move(loans[kind][i]);
      }
    }
    return true;
  }

  void fill(const PageRef& page, size_t kind, uint32_t number) const {
    const size_t bytes = static_cast<size_t>(header_.page_bytes[kind]);
    read_all(descriptor_, page.data(), bytes, first_byte_[kind] + uint64_t{number} * bytes);
    if (xxhash64(page.data(), bytes, 0) != sums_[kind][number]) refuse("a page");
  }

  SavedCache assemble(const Description& described) const {
    const auto at = [&](size_t kind) {
      std::vector<PageRef> out;
      for (const uint32_t number : described.numbers[kind]) out.push_back(pages_[kind][number]);
      return out;
    };
    CacheParts parts;
    parts.length = static_cast<int>(described.record.length);
    parts.pages = at(kKeys);
    parts.states.floor = static_cast<int>(described.record.floor);
    if (!described.numbers[kStates].empty()) parts.states.state = at(kStates).front();
    parts.states.rows = at(kRows);
    return {described.record.owner, described.tokens, engine_.make_cache(n_ctx_, std::move(parts))};
  }

  const Engine& engine_;
  const int n_ctx_;
  size_t left_;
  const int descriptor_;
  Header header_{};
  std::vector<uint8_t> index_;
  size_t at_ = 0;
  std::array<std::vector<PageRef>, kKinds> pages_;  // those that are loaded
  std::array<std::vector<uint64_t>, kKinds> sums_;
  std::array<uint64_t, kKinds> first_byte_{};
};

}  // namespace

void write_caches(const Engine& engine, uint64_t key, const std::vector<SavedCache>& caches,
                  int descriptor) {
  Writer writer(engine, key);
  for (const SavedCache& saved : caches) {
    if (!writer.add(saved)) break;
  }
  writer.write(descriptor);
}

std::vector<SavedCache> read_caches(const Engine& engine, uint64_t key, int n_ctx, size_t max_bytes,
                                    int descriptor) {
  try {
    return Reader(engine, key, n_ctx, max_bytes, descriptor).read();
  } catch (const std::bad_alloc&) {
    throw CacheFileError("there is no memory to read it");
  }
}

}  // namespace maglio

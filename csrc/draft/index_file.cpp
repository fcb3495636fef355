#include "draft/index_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "checksum/xxhash64.h"
#include "platform.h"

namespace maglio {
namespace {

constexpr char kMagic[8] = {'M', 'A', 'G', 'L', 'I', 'O', 'I', 'X'};
constexpr uint32_t kByteOrder = 0x01020304u;
constexpr uint32_t kVersion = 2;
constexpr size_t kMaxFingerprint = 4096;

struct Header {
  char magic[8];
  uint32_t byte_order;
  uint32_t version;
  uint64_t checksum;  // of everything below, see checksum()
  uint64_t file_bytes;
  uint32_t tokens;
  uint32_t states;
  uint32_t edges;
  uint32_t fingerprint_bytes;
};
static_assert(sizeof(Header) == 48, "the header is written as it lies in memory");

constexpr size_t kChecked = offsetof(Header, file_bytes);

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

// The head is what lies between the checksum and the body; its own checksum seeds the body's.
uint64_t checksum(const void* head, size_t head_bytes, const void* body, size_t body_bytes) {
  return xxhash64(body, body_bytes, xxhash64(head, head_bytes, 0));
}

std::string system_reason(const char* action) {
  return std::string(action) + ": " + std::strerror(errno);
}

bool same_time(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  // Whether nobody has written to the file meanwhile. Replacing it is no reason to mind.
  bool unchanged(const struct stat& before) const {
    struct stat now{};
    return ::fstat(descriptor_, &now) == 0 && now.st_size == before.st_size &&
           same_time(modified(now), modified(before));
  }

 private:
  int descriptor_;
};

// The first bytes of a file, in memory of their own if they are few, where nobody can change them,
// and mapped otherwise.
class Contents {
 public:
  Contents(const File& file, size_t bytes, size_t max_read)
      : bytes_(bytes), mapped_(bytes > max_read) {
    const int flags = mapped_ ? MAP_PRIVATE | kMapAndRead : MAP_PRIVATE | MAP_ANONYMOUS;
    const int protection = mapped_ ? PROT_READ : PROT_READ | PROT_WRITE;
    data_ = ::mmap(nullptr, bytes, protection, flags, mapped_ ? file.get() : -1, 0);
    if (!mapped_ && valid()) size_ = read_all(file, static_cast<char*>(data_), bytes);
  }
  ~Contents() {
    if (valid()) ::munmap(data_, bytes_);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  bool valid() const { return data_ != MAP_FAILED; }
  // Whether the file had as many bytes.
  bool whole() const { return mapped_ || size_ == bytes_; }
  bool mapped() const { return mapped_; }
  const char* data() const { return static_cast<const char*>(data_); }

 private:
  static size_t read_all(const File& file, char* out, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::read(file.get(), out + done, bytes - done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  size_t bytes_;
  bool mapped_;
  size_t size_ = 0;
  void* data_;
};

void write_all(int descriptor, const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw std::system_error(errno, std::generic_category());
    p += written;
    bytes -= static_cast<size_t>(written);
  }
}

// Header and padded fingerprint, ready to write.
std::string make_head(const FrozenAutomaton& index, const std::string& fingerprint) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.byte_order = kByteOrder;
  header.version = kVersion;
  header.tokens = static_cast<uint32_t>(index.sizes().tokens);
  header.states = static_cast<uint32_t>(index.sizes().states);
  header.edges = static_cast<uint32_t>(index.sizes().edges);
  header.fingerprint_bytes = static_cast<uint32_t>(fingerprint.size());
  std::string head(sizeof(Header) + padded(fingerprint.size()), '\0');
  header.file_bytes = head.size() + index.memory_bytes();
  std::memcpy(&head[0], &header, sizeof(header));
  std::memcpy(&head[sizeof(header)], fingerprint.data(), fingerprint.size());
  header.checksum =
      checksum(head.data() + kChecked, head.size() - kChecked, index.body(), index.memory_bytes());
  std::memcpy(&head[0], &header, sizeof(header));
  return head;
}

// What is wrong with the fixed fields, or an empty string.
std::string check_header(const Header& header, uint64_t actual_bytes) {
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return "not a Maglio index file";
  if (header.byte_order != kByteOrder) return "written on a machine with another byte order";
  if (header.version != kVersion) {
    return "has format version " + std::to_string(header.version) + ", this Maglio reads " +
           std::to_string(kVersion);
  }
  if (header.file_bytes != actual_bytes) {
    return "truncated or overlong: the header says " + std::to_string(header.file_bytes) +
           " bytes, the file has " + std::to_string(actual_bytes);
  }
  if (header.fingerprint_bytes > kMaxFingerprint) return "damaged: the fingerprint is too long";
  constexpr uint32_t kMaxCount = static_cast<uint32_t>(std::numeric_limits<int32_t>::max());
  if (header.tokens > kMaxCount || header.states > kMaxCount || header.edges > kMaxCount) {
    return "damaged: a section size is impossible";
  }
  return "";
}

}  // namespace

void write_index(const FrozenAutomaton& index, int descriptor, const std::string& fingerprint) {
  if (fingerprint.size() > kMaxFingerprint) {
    throw std::invalid_argument("the fingerprint has more than " + std::to_string(kMaxFingerprint) +
                                " bytes");
  }
  const std::string head = make_head(index, fingerprint);
  write_all(descriptor, head.data(), head.size());
  write_all(descriptor, index.body(), index.memory_bytes());
}

OpenedIndex open_index(const std::string& path, const std::string* expected, size_t max_read) {
  const auto refuse_if = [&path](const std::string& problem) {
    if (!problem.empty()) throw IndexFileError(path, problem + "; build the index again");
  };
  const auto opened_file =
      std::make_shared<const File>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const File& file = *opened_file;
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    throw IndexFileError(path, system_reason("cannot be opened"));
  }
  if (!S_ISREG(status.st_mode)) throw IndexFileError(path, "not a regular file");
  const size_t bytes = static_cast<size_t>(status.st_size);
  if (bytes < sizeof(Header)) refuse_if("too short to be a Maglio index file");

  const auto contents = std::make_shared<const Contents>(file, bytes, max_read);
  if (!contents->valid()) throw IndexFileError(path, system_reason("cannot be read into memory"));
  if (!contents->whole()) throw IndexFileError(path, "cannot be read to its end");
  Header header;
  std::memcpy(&header, contents->data(), sizeof(header));
  refuse_if(check_header(header, bytes));
  const FrozenAutomaton::Sizes sizes{static_cast<int32_t>(header.tokens),
                                     static_cast<int32_t>(header.states),
                                     static_cast<int32_t>(header.edges)};
  const std::string problem = sizes.check();
  if (!problem.empty()) refuse_if("damaged: " + problem);
  const size_t head_bytes = sizeof(Header) + padded(header.fingerprint_bytes);
  const size_t body_bytes = sizes.body_words() * sizeof(int32_t);
  if (head_bytes + body_bytes != bytes) refuse_if("damaged: the sections do not fill the file");
  const char* body = contents->data() + head_bytes;
  if (checksum(contents->data() + kChecked, head_bytes - kChecked, body, body_bytes) !=
      header.checksum) {
    refuse_if("damaged: the checksum differs");
  }

  OpenedIndex opened;
  opened.fingerprint.assign(contents->data() + sizeof(Header), header.fingerprint_bytes);
  if (expected != nullptr && *expected != opened.fingerprint) {
    refuse_if("made with the tokenizer '" + opened.fingerprint + "', not '" + *expected + "'");
  }
  FrozenAutomaton::Guard guard;
  if (contents->mapped()) {
    guard = [path, opened_file, status] {
      if (opened_file->unchanged(status)) return;
      throw IndexFileError(path, "written to while it was in use; open it again");
    };
  }
  opened.index = std::make_shared<const FrozenAutomaton>(
      sizes, reinterpret_cast<const int32_t*>(body), contents, std::move(guard));
  const std::string damage = opened.index->check();
  if (!damage.empty()) refuse_if("damaged: " + damage);
  if (!file.unchanged(status)) refuse_if("written to while it was opened");
  return opened;
}

}  // namespace maglio

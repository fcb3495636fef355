#include "engine/kept_weights.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "checksum/xxhash64.h"

namespace maglio {
namespace {

constexpr char kMagic[8] = {'M', 'A', 'G', 'L', 'I', 'O', 'W', 'T'};
constexpr uint64_t kVersion = 1;
constexpr size_t kAlignment = 4096;
constexpr size_t kWriteBytes = size_t{8} << 20;

struct Header {
  char magic[8];
  uint64_t version;
  uint64_t key;
  uint64_t file_bytes;
};
static_assert(sizeof(Header) == 32, "the header is written as it lies in memory");

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Header header_of(const std::vector<Packing>& packings, uint64_t key) {
  Header header{{}, kVersion, key, kept_bytes(packings)};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  return header;
}

KeptWeightsError system_error(const char* what) {
  return KeptWeightsError(std::string(what) + ": " + std::strerror(errno));
}

template <typename T>
uint64_t digest(const T& value, uint64_t seed) {
  return xxhash64(&value, sizeof(value), seed);
}

// Of what a matrix of this type becomes. Whoever changes a layout changes this.
uint64_t digest_of_tiles(TensorType type, uint64_t seed) {
  constexpr int kRows = 2 * kTileRows - 1, kCols = 512;
  Matrix matrix(type, kRows, kCols);
  const BlockGeometry block = block_geometry(static_cast<uint32_t>(type));
  std::vector<uint8_t> source(size_t{kRows} * kCols / block.values * block.bytes);
  uint32_t state = 1;
  for (uint8_t& byte : source) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
    if ((byte & 0x7c) == 0x7c) byte = static_cast<uint8_t>(byte ^ 0x40);  // no NaN, no infinity
  }
  matrix.pack_tiles(source.data(), nullptr, 0, matrix.tiles());
  return xxhash64(matrix.data(), matrix.bytes(), seed);
}

class Mapping {
 public:
  Mapping(int descriptor, size_t bytes)
      : bytes_(bytes), data_(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0)) {
    if (data_ == MAP_FAILED) throw system_error("it cannot be mapped");
  }
  ~Mapping() { ::munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const uint8_t* data() const { return static_cast<const uint8_t*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

// Writes to a file and tells how far it is.
class Writer {
 public:
  Writer(int descriptor, uint64_t all, const Progress& progress)
      : descriptor_(descriptor), all_(all), progress_(progress) {}

  // Followed by zeros up to a multiple of 4096 bytes.
  void write_padded(const void* data, size_t bytes) {
    static const uint8_t kZeros[kAlignment] = {};
    write(static_cast<const uint8_t*>(data), bytes);
    write(kZeros, aligned(bytes) - bytes);
  }

 private:
  void write(const uint8_t* data, size_t bytes) {
    while (bytes > 0) {
      const ssize_t done = ::write(descriptor_, data, std::min(bytes, kWriteBytes));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) throw system_error("it cannot be written");
      data += done;
      bytes -= static_cast<size_t>(done);
      written_ += static_cast<uint64_t>(done);
      if (progress_) progress_(written_, all_);
    }
  }

  const int descriptor_;
  const uint64_t all_;
  const Progress& progress_;
  uint64_t written_ = 0;
};

}  // namespace

uint64_t kept_key(const GgufFile& file, const std::vector<Packing>& packings) {
  uint64_t key = file.identity();
  std::set<TensorType> types;
  for (const Packing& packing : packings) {
    const std::string& name = packing.tensor->name;
    key = xxhash64(name.data(), name.size(), key);
    key = digest(packing.matrix->rows(), key);
    key = digest(packing.first_row, key);
    key = xxhash64(packing.order.data(), packing.order.size() * sizeof(int32_t), key);
    types.insert(packing.matrix->type());
  }
  for (const TensorType type : types) key = digest_of_tiles(type, key);
  return key;
}

uint64_t kept_bytes(const std::vector<Packing>& packings) {
  uint64_t bytes = kAlignment;
  for (const Packing& packing : packings) bytes += aligned(packing.matrix->bytes());
  return bytes;
}

void write_kept(const std::vector<Packing>& packings, uint64_t key, int descriptor,
                const Progress& progress) {
  const Header header = header_of(packings, key);
  Writer writer(descriptor, header.file_bytes, progress);
  writer.write_padded(&header, sizeof(header));
  for (const Packing& packing : packings) {
    writer.write_padded(packing.matrix->data(), packing.matrix->bytes());
  }
}

void map_kept(const std::vector<Packing>& packings, uint64_t key, int descriptor) {
  const Header expected = header_of(packings, key);
  Header header;
  const ssize_t got = ::pread(descriptor, &header, sizeof(header), 0);
  if (got < 0) throw system_error("it cannot be read");
  if (got < static_cast<ssize_t>(sizeof(header)) ||
      std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    throw KeptWeightsError("it is not a file of weights");
  }
  if (header.version != expected.version || header.key != expected.key) {
    throw KeptWeightsError(
        "the model file has changed since, or the way in which weights are kept");
  }
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) throw system_error("it cannot be read");
  const uint64_t bytes = static_cast<uint64_t>(status.st_size);
  if (bytes != expected.file_bytes || header.file_bytes != expected.file_bytes) {
    throw KeptWeightsError("it has " + std::to_string(bytes) + " bytes and should have " +
                           std::to_string(expected.file_bytes));
  }
  const auto mapping = std::make_shared<const Mapping>(descriptor, static_cast<size_t>(bytes));
  const uint8_t* tiles = mapping->data() + kAlignment;
  for (const Packing& packing : packings) {
    Matrix& matrix = *packing.matrix;
    const size_t size = aligned(matrix.bytes());
    matrix = Matrix(matrix.type(), matrix.rows(), matrix.cols(), tiles, mapping);
    tiles += size;
  }
}

}  // namespace maglio

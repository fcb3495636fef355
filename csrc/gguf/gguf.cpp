#include "gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "checksum/xxhash64.h"
#include "gguf/tensor_type.h"

namespace maglio {
namespace {

constexpr size_t kMaxDims = 4;
constexpr size_t kMaxKeyBytes = 65535;  // the specification's limit
constexpr size_t kMaxTensorNameBytes = 1024;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr size_t kFirstRead = 1 << 20;
constexpr size_t kMaxHeader = size_t{256} << 20;  // the largest vocabularies take some 20 MB

// A quoted, printable, bounded rendering of untrusted text for error messages.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, 60)) out += (c >= 32 && c < 127) ? c : '?';
  return out + (text.size() > 60 ? "...'" : "'");
}

// The header is longer than the part of it that is in memory.
struct HeaderGoesOn {
  uint64_t needed;
};

// Reads the first `size` bytes of a file of `file_size` bytes.
class Cursor {
 public:
  Cursor(const uint8_t* data, size_t size, uint64_t file_size, size_t at = 0)
      : data_(data), size_(size), file_size_(file_size), at_(at) {}

  size_t at() const { return at_; }
  uint64_t left() const { return file_size_ - at_; }

  template <typename T>
  T read(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string_view read_string(const char* what) {
    const uint64_t length = read<uint64_t>(what);
    return {reinterpret_cast<const char*>(take(length, what)), static_cast<size_t>(length)};
  }

  // Throws HeaderGoesOn when the bytes are in the file but not in memory.
  const uint8_t* take(uint64_t bytes, const char* what) {
    if (bytes > left()) {
      throw GgufError("the file ends inside " + std::string(what) + " at byte " +
                      std::to_string(at_) + " (needs " + std::to_string(bytes) + " bytes, " +
                      std::to_string(left()) + " are left); the file is truncated or damaged");
    }
    if (bytes > size_ - at_) throw HeaderGoesOn{at_ + bytes};
    const uint8_t* p = data_ + at_;
    at_ += static_cast<size_t>(bytes);
    return p;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  uint64_t file_size_;
  size_t at_;
};

// Refuses a count that the remaining bytes cannot hold, before anything is allocated for it.
void check_count(uint64_t count, size_t least_bytes_each, uint64_t left, const char* what) {
  if (count > left / least_bytes_each) {
    throw GgufError("it claims " + std::to_string(count) + " " + what + ", more than the " +
                    std::to_string(left) + " bytes left can hold; the file is damaged");
  }
}

GgufType read_type(Cursor& in, std::string_view key) {
  const uint32_t type = in.read<uint32_t>("a metadata type");
  if (type > static_cast<uint32_t>(GgufType::kFloat64)) {
    throw GgufError("metadata " + quoted(key) + " has the unknown type " + std::to_string(type));
  }
  return static_cast<GgufType>(type);
}

void skip_elements(Cursor& in, const GgufValue& value) {
  if (value.type == GgufType::kString) {
    check_count(value.count, sizeof(uint64_t), in.left(), "strings in a metadata array");
    for (uint64_t i = 0; i < value.count; ++i) in.read_string("a metadata string");
    return;
  }
  const size_t size = gguf_type_size(value.type);
  if (size == 0) throw GgufError("metadata " + quoted(value.key) + " is an array of arrays");
  check_count(value.count, size, in.left(), "elements in a metadata array");
  in.take(value.count * size, "a metadata value");
}

GgufValue read_value(Cursor& in) {
  GgufValue value;
  const std::string_view key = in.read_string("a metadata key");
  if (key.empty() || key.size() > kMaxKeyBytes) {
    throw GgufError("a metadata key of " + std::to_string(key.size()) + " bytes at byte " +
                    std::to_string(in.at()) + " is not valid");
  }
  value.key = key;
  value.type = read_type(in, key);
  if (value.type == GgufType::kArray) {
    value.is_array = true;
    value.type = read_type(in, key);
    value.count = in.read<uint64_t>("an array length");
  }
  value.offset = in.at();
  skip_elements(in, value);
  return value;
}

uint64_t checked_product(uint64_t a, uint64_t b, std::string_view name) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw GgufError("tensor " + quoted(name) + " has dimensions whose product overflows");
  }
  return product;
}

GgufTensor read_tensor(Cursor& in) {
  GgufTensor tensor;
  const std::string_view name = in.read_string("a tensor name");
  if (name.empty() || name.size() > kMaxTensorNameBytes) {
    throw GgufError("a tensor name of " + std::to_string(name.size()) + " bytes is not valid");
  }
  tensor.name = name;
  const uint32_t dims = in.read<uint32_t>("a tensor's dimension count");
  if (dims < 1 || dims > kMaxDims) {
    throw GgufError("tensor " + quoted(name) + " has " + std::to_string(dims) +
                    " dimensions; 1 to 4 are possible");
  }
  for (uint32_t i = 0; i < dims; ++i) {
    tensor.shape.push_back(in.read<uint64_t>("a tensor's dimensions"));
    if (tensor.shape.back() == 0) {
      throw GgufError("tensor " + quoted(name) + " has a dimension of zero");
    }
  }
  tensor.type = in.read<uint32_t>("a tensor's type");
  tensor.offset = in.read<uint64_t>("a tensor's offset");
  return tensor;
}

// Bytes of a tensor's data. A type we cannot size is left at 0: only a model that needs the
// tensor has to refuse it.
uint64_t tensor_bytes(const GgufTensor& tensor) {
  const BlockGeometry block = block_geometry(tensor.type);
  if (block.values == 0) return 0;
  if (tensor.shape[0] % block.values != 0) {
    throw GgufError("tensor " + quoted(tensor.name) + " has rows of " +
                    std::to_string(tensor.shape[0]) + " values, not a multiple of the " +
                    std::to_string(block.values) + "-value blocks of " +
                    tensor_type_name(tensor.type));
  }
  uint64_t blocks = tensor.shape[0] / block.values;
  for (size_t i = 1; i < tensor.shape.size(); ++i) {
    blocks = checked_product(blocks, tensor.shape[i], tensor.name);
  }
  return checked_product(blocks, block.bytes, tensor.name);
}

uint64_t read_alignment(const std::vector<GgufValue>& values, const uint8_t* data) {
  for (const GgufValue& value : values) {
    if (value.key != "general.alignment") continue;
    if (value.type != GgufType::kUint32 || value.is_array) {
      throw GgufError("general.alignment is not a 32-bit number");
    }
    uint32_t alignment;
    std::memcpy(&alignment, data + value.offset, sizeof(alignment));
    if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
      throw GgufError("general.alignment is " + std::to_string(alignment) +
                      ", not a power of two up to " + std::to_string(kMaxAlignment));
    }
    return alignment;
  }
  return 32;
}

template <typename Items, typename Name>
void check_unique(const Items& items, Name name, const char* what) {
  std::unordered_set<std::string_view> seen;
  for (const auto& item : items) {
    if (!seen.insert(name(item)).second) {
      throw GgufError(std::string(what) + " " + quoted(name(item)) + " appears twice");
    }
  }
}

}  // namespace

size_t gguf_type_size(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

GgufPart::GgufPart(int descriptor) : file_(descriptor) {
  uint64_t wanted = kFirstRead;
  for (bool whole = false; !whole;) {
    const size_t had = header_.size();
    header_.resize(static_cast<size_t>(std::min<uint64_t>(wanted, file_.size())));
    file_.read(had, header_.data() + had, header_.size() - had);
    try {
      parse();
      whole = true;
    } catch (const HeaderGoesOn& more) {
      if (more.needed > kMaxHeader) {
        throw GgufError("its header has more than " + std::to_string(kMaxHeader >> 20) +
                        " MiB, which is not plausible; the file is damaged");
      }
      wanted = std::min<uint64_t>(std::max<uint64_t>(4 * header_.size(), more.needed), kMaxHeader);
    }
  }
}

void GgufPart::parse() {
  const uint64_t size = file_.size();
  Cursor in(header_.data(), header_.size(), size);
  if (size < 4 || std::memcmp(header_.data(), "GGUF", 4) != 0) {
    throw GgufError("it does not start with the letters GGUF, so it is not a GGUF file");
  }
  in.take(4, "the magic");
  const uint32_t version = in.read<uint32_t>("the version");
  if (version < 2 || version > 3) {
    throw GgufError("it has GGUF version " + std::to_string(version) +
                    "; versions 2 and 3 (little-endian) are supported");
  }
  const uint64_t n_tensors = in.read<uint64_t>("the tensor count");
  const uint64_t n_values = in.read<uint64_t>("the metadata count");
  // The smallest entries there can be: key, type and one byte; name, one dimension, type, offset.
  check_count(n_values, 8 + 1 + 4 + 1, in.left(), "metadata entries");
  check_count(n_tensors, 8 + 1 + 4 + 8 + 4 + 8, in.left(), "tensors");

  values_.clear();
  tensors_.clear();
  for (uint64_t i = 0; i < n_values; ++i) values_.push_back(read_value(in));
  for (uint64_t i = 0; i < n_tensors; ++i) tensors_.push_back(read_tensor(in));
  check_unique(
      values_, [](const GgufValue& v) { return std::string_view(v.key); }, "the metadata key");
  check_unique(
      tensors_, [](const GgufTensor& t) { return std::string_view(t.name); }, "the tensor");

  const uint64_t alignment = read_alignment(values_, header_.data());
  const uint64_t data_start = (in.at() + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : tensors_) {
    tensor.bytes = tensor_bytes(tensor);
    const uint64_t room = data_start <= size ? size - data_start : 0;
    if (tensor.offset > room || tensor.bytes > room - tensor.offset) {
      throw GgufError("the data of tensor " + quoted(tensor.name) +
                      " lies past the end of the file; the file is truncated or damaged");
    }
    if (tensor.offset % alignment != 0) {
      throw GgufError("the data of tensor " + quoted(tensor.name) + " is not aligned to " +
                      std::to_string(alignment) + " bytes; the file is damaged");
    }
    tensor.offset += data_start;
  }
  check_tensor_layout();
  header_.resize(in.at());
  header_.shrink_to_fit();
}

void GgufPart::check_tensor_layout() const {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : tensors_) {
    if (tensor.bytes > 0) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
      throw GgufError("the data of tensors " + quoted(order[i - 1]->name) + " and " +
                      quoted(order[i]->name) + " overlap; the file is damaged");
    }
  }
}

std::vector<std::string_view> GgufPart::strings(const GgufValue& value) const {
  Cursor in(header_.data(), header_.size(), header_.size(), value.offset);
  std::vector<std::string_view> out;
  out.reserve(value.count);
  for (uint64_t i = 0; i < value.count; ++i) out.push_back(in.read_string("a metadata string"));
  return out;
}

GgufFile::GgufFile(std::vector<std::shared_ptr<const GgufPart>> parts) : parts_(std::move(parts)) {
  for (size_t part = 0; part < parts_.size(); ++part) {
    for (GgufTensor tensor : parts_[part]->tensors()) {
      tensor.part = part;
      const auto [at, is_new] = index_.emplace(tensor.name, tensors_.size());
      if (!is_new) {
        throw GgufError("tensor " + quoted(tensor.name) + " is in part " +
                        std::to_string(tensors_[at->second].part + 1) + " and in part " +
                        std::to_string(part + 1) + "; the parts do not belong together");
      }
      tensors_.push_back(std::move(tensor));
    }
  }
}

uint64_t GgufFile::identity() const {
  uint64_t sum = 0;
  for (const std::shared_ptr<const GgufPart>& part : parts_) {
    const uint64_t size = part->file().size();
    const int64_t modified = part->file().modified();
    sum = xxhash64(&size, sizeof(size), sum);
    sum = xxhash64(&modified, sizeof(modified), sum);
    sum = xxhash64(part->header().data(), part->header().size(), sum);
  }
  return sum;
}

const GgufTensor* GgufFile::find_tensor(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void GgufFile::read(const GgufTensor& tensor, uint64_t offset, uint8_t* to, size_t bytes) const {
  try {
    parts_[tensor.part]->file().read(tensor.offset + offset, to, bytes);
  } catch (const GgufError& error) {
    throw GgufError(name_of(tensor.part) + error.what());
  }
}

void GgufFile::check_unchanged() const {
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part]->file().unchanged()) continue;
    throw GgufError(name_of(part) +
                    "it was written to while it was read; wait until it is complete, and load it "
                    "again");
  }
}

std::string GgufFile::name_of(size_t part) const {
  if (parts_.size() == 1) return "";
  return "part " + std::to_string(part + 1) + " of " + std::to_string(parts_.size()) + ": ";
}

}  // namespace maglio

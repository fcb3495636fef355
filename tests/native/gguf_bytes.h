// GGUF files put together byte by byte, and files without a name to hold them.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "gguf/gguf.h"
#include "gguf/tensor_type.h"

namespace gguf_bytes {

using maglio::GgufFile;
using maglio::GgufPart;
using maglio::TensorType;
using Bytes = std::vector<uint8_t>;

template <typename T>
void put(Bytes& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(value));
  std::memcpy(out.data() + at, &value, sizeof(value));
}

inline void put_string(Bytes& out, const std::string& text) {
  put<uint64_t>(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

inline void put_key(Bytes& out, const std::string& key, maglio::GgufType type) {
  put_string(out, key);
  put(out, static_cast<uint32_t>(type));
}

struct TensorEntry {
  std::string name;
  std::vector<uint64_t> shape;
  TensorType type;
  uint64_t offset;
};

// A file with a value of every kind and the given tensors, followed by `data` bytes.
inline Bytes make_file(const std::vector<TensorEntry>& tensors, size_t data) {
  using maglio::GgufType;
  Bytes out = {'G', 'G', 'U', 'F'};
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors.size());
  put<uint64_t>(out, 5);
  put_key(out, "general.architecture", GgufType::kString);
  put_string(out, "llama");
  put_key(out, "a.number", GgufType::kFloat64);
  put<double>(out, 1.5);
  put_key(out, "general.alignment", GgufType::kUint32);
  put<uint32_t>(out, 32);
  put_key(out, "some.numbers", GgufType::kArray);
  put(out, static_cast<uint32_t>(GgufType::kInt16));
  put<uint64_t>(out, 3);
  for (int16_t i = 0; i < 3; ++i) put(out, i);
  put_key(out, "some.strings", GgufType::kArray);
  put(out, static_cast<uint32_t>(GgufType::kString));
  put<uint64_t>(out, 3);
  for (const char* text : {"one", "", "three"}) put_string(out, text);
  for (const TensorEntry& tensor : tensors) {
    put_string(out, tensor.name);
    put<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
    for (uint64_t dimension : tensor.shape) put(out, dimension);
    put(out, static_cast<uint32_t>(tensor.type));
    put(out, tensor.offset);
  }
  out.resize((out.size() + 31) / 32 * 32 + data);
  return out;
}

// A file without a name.
class Scratch {
 public:
  explicit Scratch(const Bytes& bytes = {}) : descriptor_(memfd_create("gguf", 0)) { put(bytes); }
  ~Scratch() { ::close(descriptor_); }
  void put(const Bytes& bytes) const {
    cut(bytes.size());
    CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  }
  void cut(size_t size) const { CHECK(::ftruncate(descriptor_, static_cast<off_t>(size)) == 0); }
  int descriptor() const { return descriptor_; }
  std::shared_ptr<const GgufPart> open() const {
    return std::make_shared<const GgufPart>(descriptor_);
  }

 private:
  int descriptor_;
};

inline GgufFile file_of(const Bytes& bytes) { return GgufFile({Scratch(bytes).open()}); }

}  // namespace gguf_bytes

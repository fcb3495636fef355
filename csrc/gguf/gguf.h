// Reader of GGUF headers: the key/value metadata and the tensor directory of a model file that is
// already in memory (mapped). It touches only the header; nothing here reads tensor data.
//
// The file is untrusted: every count, length and offset is checked against the bytes that are
// there before it is used, and no allocation is larger than a small multiple of the header.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace maglio {

struct GgufError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Bytes of one value of a fixed-size type; 0 for strings and arrays.
size_t gguf_type_size(GgufType type);

// A metadata entry. Values stay in the file: `offset` is where the value starts (for arrays, the
// first element), relative to the start of the file.
struct GgufValue {
  std::string key;
  GgufType type;  // element type when `is_array`
  bool is_array = false;
  uint64_t count = 1;  // number of elements
  size_t offset = 0;
};

struct GgufTensor {
  std::string name;
  uint32_t type = 0;            // ggml type id, see TensorType in tensor_type.h
  std::vector<uint64_t> shape;  // innermost dimension first, as in the file
  size_t offset = 0;            // of the data, relative to the start of the file
  size_t bytes = 0;
};

class GgufFile {
 public:
  // Parses the header of `size` bytes at `data`, which must outlive this object. Throws GgufError.
  GgufFile(const uint8_t* data, size_t size);

  const std::vector<GgufValue>& values() const { return values_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // All elements of a string-typed entry, as views into the file.
  std::vector<std::string_view> strings(const GgufValue& value) const;

 private:
  void check_tensor_layout() const;

  const uint8_t* data_;
  size_t size_;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace maglio

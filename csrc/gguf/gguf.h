// Reader of GGUF files: the key/value metadata and the tensor directory, and the data of tensors.
//
// Files are untrusted: every count, length and offset is checked against the bytes that are there
// before it is used, and no allocation is larger than a small multiple of the header. Headers are
// in memory; data is read where it is wanted.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf/input_file.h"

namespace maglio {

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

// A metadata entry. Values stay in the header: `offset` is where the value starts (for arrays, the
// first element).
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
  uint64_t offset = 0;          // of the data, relative to the start of the file
  uint64_t bytes = 0;           // 0 for a type that is not supported
  size_t part = 0;              // of the model, from 0
};

// One file: a whole model, or a part of one.
class GgufPart {
 public:
  // Reads and checks the header. The descriptor stays the caller's. Throws GgufError.
  explicit GgufPart(int descriptor);

  const std::vector<GgufValue>& values() const { return values_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const InputFile& file() const { return file_; }
  // Everything before the data of tensors.
  const std::vector<uint8_t>& header() const { return header_; }

  // All elements of a string-typed entry, as views into the header.
  std::vector<std::string_view> strings(const GgufValue& value) const;

 private:
  void parse();
  void check_tensor_layout() const;

  InputFile file_;
  std::vector<uint8_t> header_;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
};

// The tensors of a model, in one file or in several parts.
class GgufFile {
 public:
  // Throws GgufError when a tensor is in two parts.
  explicit GgufFile(std::vector<std::shared_ptr<const GgufPart>> parts);

  const std::vector<std::shared_ptr<const GgufPart>>& parts() const { return parts_; }
  // Of sizes, times and headers of all parts: the same as long as nobody changes the model.
  uint64_t identity() const;
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(const std::string& name) const;

  // Reads `bytes` bytes of a tensor's data, from `offset` within it on. Throws GgufError.
  void read(const GgufTensor& tensor, uint64_t offset, uint8_t* to, size_t bytes) const;
  // Throws GgufError when a part was written to since it was opened.
  void check_unchanged() const;

 private:
  std::string name_of(size_t part) const;

  std::vector<std::shared_ptr<const GgufPart>> parts_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;  // of tensors_, by name
};

}  // namespace maglio

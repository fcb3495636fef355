// The tensor types of a GGUF file that the engine can read, and their block geometry.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maglio {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct BlockGeometry {
  uint32_t values;  // per block; 0 for a type that is not supported
  uint32_t bytes;
};

constexpr BlockGeometry block_geometry(uint32_t type) {
  switch (static_cast<TensorType>(type)) {
    case TensorType::kF32:
      return {1, 4};
    case TensorType::kF16:
      return {1, 2};
    case TensorType::kBF16:
      return {1, 2};
    case TensorType::kQ4_0:
      return {32, 18};
    case TensorType::kQ4_1:
      return {32, 20};
    case TensorType::kQ5_0:
      return {32, 22};
    case TensorType::kQ5_1:
      return {32, 24};
    case TensorType::kQ8_0:
      return {32, 34};
    case TensorType::kQ4_K:
      return {256, 144};
    case TensorType::kQ5_K:
      return {256, 176};
    case TensorType::kQ6_K:
      return {256, 210};
  }
  return {0, 0};
}

// The name a file format reader would print, also for types that are not supported.
const char* tensor_type_name(uint32_t type);

}  // namespace maglio

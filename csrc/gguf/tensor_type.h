// The tensor types of a GGUF file that the engine can read, and their block geometry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace maglio {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
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
    case TensorType::kQ2_K:
      return {256, 84};
    case TensorType::kQ3_K:
      return {256, 110};
    case TensorType::kQ4_K:
      return {256, 144};
    case TensorType::kQ5_K:
      return {256, 176};
    case TensorType::kQ6_K:
      return {256, 210};
    case TensorType::kIQ2_XXS:
      return {256, 66};
    case TensorType::kIQ2_XS:
      return {256, 74};
    case TensorType::kIQ2_S:
      return {256, 82};
    case TensorType::kIQ3_XXS:
      return {256, 98};
    case TensorType::kIQ3_S:
      return {256, 110};
    case TensorType::kIQ4_NL:
      return {32, 18};
    case TensorType::kIQ4_XS:
      return {256, 136};
    case TensorType::kMXFP4:
      return {32, 17};
  }
  return {0, 0};
}

// The name a file format reader would print, also for types that are not supported.
const char* tensor_type_name(uint32_t type);

// The names of those that are, for messages.
std::vector<std::string> supported_types();

}  // namespace maglio

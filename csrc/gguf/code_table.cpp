#include "gguf/code_table.h"

#include <initializer_list>

namespace maglio {
namespace {

constexpr CodeTable numbers(int zero, std::initializer_list<int> values) {
  CodeTable table{};
  table.zero = zero;
  int i = 0;
  for (int value : values) table.entries[i++] = static_cast<uint8_t>(value + zero);
  return table;
}

constexpr CodeTable magnitudes(std::initializer_list<int> values) {
  CodeTable table{};
  table.zero = 64;
  int i = 0;
  for (int value : values) {
    table.entries[i] = static_cast<uint8_t>(64 + value);
    table.entries[8 + i++] = static_cast<uint8_t>(64 - value);
  }
  return table;
}

// The values are those of ggml's formats. MXFP4's are twice those of the OCP Microscaling
// specification (0, 1/2, 1, 3/2, 2, 3, 4, 6), whose scales are halved to match.
constexpr CodeTable kNumbers = numbers(0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
constexpr CodeTable kIq4 =
    numbers(128, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113});
constexpr CodeTable kMxfp4 = magnitudes({0, 1, 2, 3, 4, 6, 8, 12});
constexpr CodeTable kIq2 = magnitudes({8, 25, 43});
constexpr CodeTable kIq3Xxs = magnitudes({4, 12, 20, 28, 36, 44, 52, 62});
constexpr CodeTable kIq3S = magnitudes({1, 3, 5, 7, 9, 11, 13, 15});

}  // namespace

const CodeTable& code_table(TensorType type) {
  switch (type) {
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return kIq4;
    case TensorType::kMXFP4:
      return kMxfp4;
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
      return kIq2;
    case TensorType::kIQ3_XXS:
      return kIq3Xxs;
    case TensorType::kIQ3_S:
      return kIq3S;
    default:
      return kNumbers;
  }
}

}  // namespace maglio

#include "gguf/tensor_type.h"

#include <iterator>

namespace maglio {

const char* tensor_type_name(uint32_t type) {
  static const char* const kNames[] = {
      "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
      "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
      "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
      "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
      "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
      "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",
  };
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

std::vector<std::string> supported_types() {
  std::vector<std::string> names;
  for (uint32_t type = 0; type <= static_cast<uint32_t>(TensorType::kMXFP4); ++type) {
    if (block_geometry(type).values == 0) continue;
    names.push_back(tensor_type_name(type));
  }
  return names;
}

}  // namespace maglio

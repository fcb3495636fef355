// Fills a Model from the tensors of a GGUF file.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "engine/model.h"
#include "gguf/gguf.h"

namespace maglio {

// The model that `spec` describes. Throws std::invalid_argument when `spec` does not pass its
// check(), and GgufError naming the tensor when one is missing, of a type or shape that cannot be
// used, or part of the file but not of the model; `known` names what the family has read itself.
std::shared_ptr<const Model> load_model(const GgufFile& file, const ModelSpec& spec,
                                        const std::set<std::string>& known, int threads);

// One tensor as it is, a matrix or a vector of floats.
Matrix load_matrix(const GgufFile& file, const std::string& tensor, int threads);
Vector load_vector(const GgufFile& file, const std::string& tensor);

}  // namespace maglio

// Fills a Model from the tensors of a GGUF file. Which tensor plays which role is the caller's
// knowledge (a family's); here a role is a name for a member of Layer or Model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"
#include "gguf/gguf.h"

namespace maglio {

// A model with empty layers. Throws std::invalid_argument when `spec` does not pass its check().
std::shared_ptr<Model> make_model(const ModelSpec& spec);

void set_attention_kind(Model& model, int layer, int window, int rope);

// `layer` is -1 for what belongs to the whole model. Throws GgufError naming the tensor when it is
// missing or of a type or shape that cannot be used, and std::invalid_argument on a bad role.
void load_vector(Model& model, const GgufFile& file, const std::string& tensor, int layer,
                 const std::string& role);

// `order` permutes output rows (see Matrix::pack_tiles); empty keeps the file's.
void load_weight(Model& model, const GgufFile& file, const std::string& tensor, int layer,
                 const std::string& role, const std::vector<int32_t>& order, int threads);

Matrix load_matrix(const GgufFile& file, const std::string& tensor,
                   const std::vector<int32_t>& order, int threads);

}  // namespace maglio

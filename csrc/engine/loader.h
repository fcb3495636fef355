// Fills a Model from the tensors of a GGUF file.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/kept_weights.h"
#include "engine/model.h"
#include "engine/packing.h"
#include "gguf/gguf.h"

namespace maglio {

// A model on its way into memory: first what it will take, then its weights.
class ModelLoad {
 public:
  // Finds the weights that `spec` describes and reads those that are vectors. Throws
  // std::invalid_argument when `spec` does not pass its check(), and GgufError naming the tensor
  // when one is missing, of a type or shape that cannot be used, or part of the file but not of the
  // model; `known` names what the family has read itself.
  ModelLoad(std::shared_ptr<const GgufFile> file, const ModelSpec& spec,
            const std::set<std::string>& known);

  // Of the matrices, repacked.
  size_t weight_bytes() const { return model_->weight_bytes(); }
  // Of a cache of so many positions.
  size_t cache_bytes(int positions, CacheType type) const;

  // The model, read and repacked. Once. Throws GgufError when the file cannot be read or was
  // written to since it was opened, and what `progress` throws.
  std::shared_ptr<const Model> read(int threads, const Progress& progress);
  // Or the model with its matrices mapped from a file that keep() wrote. Once. Throws
  // KeptWeightsError when it is not that, and can be followed by read() then.
  std::shared_ptr<const Model> map(int descriptor);
  // Of the file that keep() writes.
  uint64_t kept_bytes() const;
  // Writes the matrices that were read to an open, empty file. Throws KeptWeightsError, and what
  // `progress` throws.
  void keep(int descriptor, const Progress& progress) const;

 private:
  class Plan;

  // Tables keep the bytes of the file, so they are read from it also where matrices are mapped.
  struct TableRead {
    EmbeddingTable* table;
    const GgufTensor* tensor;
  };
  void read_tables() const;

  std::shared_ptr<const GgufFile> file_;
  std::shared_ptr<Model> model_;
  std::vector<Packing> packings_;  // of the model's matrices
  std::vector<TableRead> tables_;
};

// One tensor as it is, a matrix or a vector of floats.
Matrix load_matrix(const GgufFile& file, const std::string& tensor, int threads);
Vector load_vector(const GgufFile& file, const std::string& tensor);

}  // namespace maglio

// A decoder-only transformer as the engine sees it: dimensions, switches and repacked weights.
//
// One parameterised model serves every family; what a family does not have is empty here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/matrix.h"
#include "engine/rope.h"
#include "kernels/kernels.h"

namespace maglio {

struct ModelSpec {
  int n_layer = 0;
  int n_embd = 0;
  int n_head = 0;
  int n_kv_head = 0;
  int head_dim = 0;
  int n_ff = 0;
  int n_vocab = 0;
  float norm_eps = 0;
  float attention_scale = 0;
  float embedding_scale = 1;
  GateActivation activation = GateActivation::kSilu;

  // Says which dimension the kernels cannot do, or returns an empty string.
  std::string check() const;
};

struct Layer {
  std::vector<float> attention_norm, ffn_norm;            // [n_embd]
  std::vector<float> attention_post_norm, ffn_post_norm;  // [n_embd] or empty
  std::vector<float> query_norm, key_norm;                // [head_dim] or empty
  std::vector<float> query_bias, key_bias, value_bias;    // or empty
  Matrix query, key, value, output;
  Matrix gate, up, down;
  int window = 0;  // positions a query can see, itself included; 0 for all
  int rope = 0;    // index into Model::ropes
};

struct Model {
  ModelSpec spec;
  std::vector<RopeSpec> ropes;
  std::vector<Layer> layers;
  Matrix embedding;
  Matrix head;  // empty when the embedding serves as the head
  std::vector<float> output_norm;

  const Matrix& output_head() const { return head.empty() ? embedding : head; }
  size_t weight_bytes() const;

  // Says what is wrong (with the spec, or a weight of the wrong size or missing), or returns an
  // empty string.
  std::string check() const;
};

}  // namespace maglio

// A small model made in memory for runs under sanitizers: layers of different shapes with every
// part a family can have. The first one sees 5 positions.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "engine/engine.h"
#include "gguf/half.h"

namespace small_model {

using maglio::Matrix;
using maglio::Model;
using maglio::TensorType;

// Every type that a matrix can have.
constexpr TensorType kTypes[] = {TensorType::kF32,    TensorType::kF16,     TensorType::kBF16,
                                 TensorType::kQ4_0,   TensorType::kQ4_1,    TensorType::kQ5_0,
                                 TensorType::kQ5_1,   TensorType::kQ8_0,    TensorType::kQ2_K,
                                 TensorType::kQ3_K,   TensorType::kQ4_K,    TensorType::kQ5_K,
                                 TensorType::kQ6_K,   TensorType::kIQ2_XXS, TensorType::kIQ2_XS,
                                 TensorType::kIQ2_S,  TensorType::kIQ3_XXS, TensorType::kIQ3_S,
                                 TensorType::kIQ4_NL, TensorType::kIQ4_XS,  TensorType::kMXFP4};

inline std::mt19937 rng(20260105);

inline float noise(float size) {
  return size * (static_cast<float>(rng() % 2001) / 1000.0f - 1.0f);
}

inline void put_half(uint8_t* at, float value) {
  const uint16_t half = maglio::float_to_half(value);
  std::memcpy(at, &half, sizeof(half));
}

// A row's bytes: random codes, with scales that keep the weights small.
inline std::vector<uint8_t> random_weights(TensorType type, int values) {
  const maglio::BlockGeometry block = maglio::block_geometry(static_cast<uint32_t>(type));
  std::vector<uint8_t> out(static_cast<size_t>(values) / block.values * block.bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(rng());
  for (size_t at = 0; at < out.size(); at += block.bytes) {
    uint8_t* p = out.data() + at;
    switch (type) {
      case TensorType::kF32: {
        const float value = noise(0.1f);
        std::memcpy(p, &value, sizeof(value));
        break;
      }
      case TensorType::kF16:
        put_half(p, noise(0.1f));
        break;
      case TensorType::kBF16: {
        const uint16_t bits = static_cast<uint16_t>(maglio::float_to_bits(noise(0.1f)) >> 16);
        std::memcpy(p, &bits, sizeof(bits));
        break;
      }
      case TensorType::kQ2_K:
        put_half(p + 80, 0.003f);
        put_half(p + 82, 0.004f);
        break;
      case TensorType::kQ3_K:
        put_half(p + 108, 0.001f);
        break;
      case TensorType::kQ6_K:
        put_half(p + 208, 0.0001f);
        break;
      case TensorType::kMXFP4:
        p[0] = static_cast<uint8_t>(119 + rng() % 3);  // a power of two
        break;
      case TensorType::kIQ4_NL:
        put_half(p, -0.001f);
        break;
      case TensorType::kIQ4_XS:
        put_half(p, 0.00005f);
        break;
      case TensorType::kIQ2_XXS:
      case TensorType::kIQ2_XS:
      case TensorType::kIQ2_S:
      case TensorType::kIQ3_XXS:
      case TensorType::kIQ3_S:
        put_half(p, 0.0004f);
        break;
      case TensorType::kQ4_K:
      case TensorType::kQ5_K:
        put_half(p, 0.0003f);
        put_half(p + 2, 0.0025f);
        break;
      case TensorType::kQ4_1:
      case TensorType::kQ5_1:
        put_half(p, 0.01f);
        put_half(p + 2, -0.1f);
        break;
      default:
        put_half(p, block.values == 32 && block.bytes < 24 && type != TensorType::kIQ4_NL ? -0.01f
                                                                                          : 0.001f);
    }
  }
  return out;
}

inline Matrix matrix(TensorType type, int rows, int cols) {
  Matrix out(type, rows, cols);
  const std::vector<uint8_t> source = random_weights(type, rows * cols);
  out.pack_tiles(source.data(), nullptr, 0, out.tiles());
  return out;
}

inline std::vector<float> vector(int size) {
  std::vector<float> out(static_cast<size_t>(size));
  for (float& x : out) x = 1.0f + noise(0.3f);
  return out;
}

// Where rows of the file go, as the loader has it; zeros where negative.
inline std::vector<int32_t> rows_in(int rows, const maglio::RowOrder& order) {
  std::vector<int32_t> out;
  for (int row = 0; row < order.placed(rows); ++row) {
    const int within = order.heads > 0 ? row % order.width : 0;
    const int head = order.heads > 0 ? row / order.width : 0;
    if (order.heads == 0) {
      out.push_back(row);
    } else {
      out.push_back(within < order.head_dim ? head * order.head_dim + within : -1);
    }
  }
  return out;
}

inline maglio::ModelSpec spec() {
  maglio::ModelSpec spec;
  spec.n_embd = 256;
  spec.n_vocab = 37;  // the last tile is not full
  spec.norm_eps = 1e-6f;
  spec.embedding_scale = 16;
  spec.ropes = {{std::vector<double>(16, 0.3)}, {std::vector<double>(8, 0.2)}};
  maglio::AttentionSpec attention;
  attention.n_head = 8;
  attention.n_kv_head = 2;
  attention.head_dim = 32;
  attention.scale = 0.2f;
  maglio::LayerSpec first, second, third, fourth;
  attention.window = 5;
  attention.head_norms = true;
  attention.value_norms = true;
  attention.keys_as_values = true;
  first.mixer = attention;
  first.feed_forward = maglio::GatedSpec{256, maglio::GateActivation::kGeluTanh};
  first.pre_norms = false;
  first.post_norms = true;
  fourth = first;
  fourth.output_scale = 0.5f;
  std::get<maglio::AttentionSpec>(fourth.mixer).kv_layer = 0;
  // Layers of different shapes, as some families have.
  attention = maglio::AttentionSpec{};
  attention.n_head = 16;
  attention.n_kv_head = 1;
  attention.head_dim = 16;
  attention.scale = 0.25f;
  attention.rope = 1;
  second.mixer = attention;
  second.feed_forward = maglio::GatedSpec{512, maglio::GateActivation::kSilu};
  attention.n_head = 8;
  attention.n_kv_head = 2;
  attention.head_dim = 32;
  attention.rotated = 16;
  attention.cap = 3;
  attention.temperature = 0.5f;
  attention.temperature_length = 7;
  attention.wide_norms = true;
  attention.sinks = true;
  third.mixer = attention;
  third.post_norms = true;
  maglio::ExpertsSpec experts;
  experts.n_ff = 256;
  experts.n_expert = 6;
  experts.n_used = 2;
  experts.n_group = 3;
  experts.n_group_used = 2;
  experts.gating = maglio::Gating::kSigmoid;
  experts.scale = 0.75f;
  experts.activation = maglio::GateActivation::kClampedSwiglu;
  experts.n_shared_ff = 256;
  experts.weighs_shared = true;
  third.feed_forward = experts;
  spec.residual_scale = 0.5f;
  spec.logit_scale = 0.75f;
  spec.logit_cap = 20;
  spec.n_embd_per_layer = 256;
  spec.layers = {first, second, third, fourth};
  return spec;
}

// The same with widths that are no multiple of anything, and heads that have to be gathered.
inline maglio::ModelSpec ragged_spec() {
  maglio::ModelSpec ragged = spec();
  ragged.layers.resize(2);  // experts have rows of whole blocks
  ragged.n_embd = 70;
  ragged.n_embd_per_layer = 32;
  ragged.ropes = {{std::vector<double>(9, 0.3)}, {std::vector<double>(8, 0.2)}};
  maglio::AttentionSpec& first = std::get<maglio::AttentionSpec>(ragged.layers[0].mixer);
  first.n_head = 6;
  first.head_dim = 18;  // followed by zeros
  maglio::AttentionSpec& second = std::get<maglio::AttentionSpec>(ragged.layers[1].mixer);
  second.n_head = 5;  // 80 values
  std::get<maglio::GatedSpec>(ragged.layers[0].feed_forward).n_ff = 33;
  std::get<maglio::GatedSpec>(ragged.layers[1].feed_forward).n_ff = 100;
  return ragged;
}

// Recurrent layers of both kinds around attention with gates.
inline maglio::ModelSpec hybrid_spec() {
  maglio::ModelSpec hybrid = spec();
  hybrid.layers = {maglio::LayerSpec{}, maglio::LayerSpec{}, hybrid.layers[2]};
  maglio::AttentionSpec& attention = std::get<maglio::AttentionSpec>(hybrid.layers[2].mixer);
  attention.wide_norms = false;
  attention.head_norms = attention.gated = true;
  maglio::DeltaNetSpec net;
  net.n_key_head = 2;
  net.n_value_head = 4;
  net.head_dim = 80;  // four vectors of columns and one
  net.n_taps = 4;
  hybrid.layers[0].mixer = net;
  hybrid.layers[0].feed_forward = maglio::GatedSpec{256, maglio::GateActivation::kSilu};
  hybrid.layers[1].mixer = maglio::ShortConvSpec{64, 3};
  hybrid.layers[1].feed_forward = hybrid.layers[0].feed_forward;
  return hybrid;
}

// Fills every weight that has to be there with random values, and biases if they are wanted.
struct Fill {
  TensorType type;
  bool biases;

  void operator()(const std::string&, Matrix& m, int rows, int cols,
                  maglio::Presence presence = maglio::kRequired, maglio::RowOrder order = {},
                  int = 1) const {
    if (presence != maglio::kRequired) return;
    const std::vector<uint8_t> source = random_weights(type, rows * cols);
    const std::vector<int32_t> from = rows_in(rows, order);
    m = Matrix(type, order.placed(rows), cols);
    m.pack_tiles(source.data(), from.data(), 0, m.tiles());
  }
  void operator()(const std::string&, maglio::Taps& taps, int channels, int n_taps) const {
    taps = maglio::Taps(channels, n_taps);
    for (int c = 0; c < channels; ++c) {
      for (int t = 0; t < n_taps; ++t) taps.at(c, t) = noise(0.5f);
    }
  }
  void operator()(const std::string&, maglio::EmbeddingTable& table, int rows, int cols,
                  maglio::Presence presence) const {
    if (presence != maglio::kRequired) return;
    table = maglio::EmbeddingTable(type, rows, cols);
    table.allocate();
    const std::vector<uint8_t> source = random_weights(type, rows * cols);
    std::memcpy(table.data(), source.data(), source.size());
  }
  void operator()(const std::string& name, maglio::Vector& v, int size,
                  maglio::Presence presence = maglio::kRequired, maglio::RowOrder order = {},
                  int = 1) const {
    if (presence == maglio::kRequired || (presence == maglio::kIfPresent && biases)) {
      std::vector<float> values = vector(size);
      if (name == "ssm_a") {  // states would grow without end
        for (float& value : values) value = -value;
      }
      v.assign(static_cast<size_t>(maglio::padded(order.placed(size))), 0.0f);
      const std::vector<int32_t> from = rows_in(size, order);
      for (size_t i = 0; i < from.size(); ++i) {
        if (from[i] >= 0) v[i] = values[static_cast<size_t>(from[i])];
      }
    }
  }
};

inline std::shared_ptr<Model> make(TensorType type, const maglio::ModelSpec& of = spec()) {
  auto model = std::make_shared<Model>(of);
  const Fill own{type, true};
  Model::visit(*model, own, [&](size_t layer, const char* name, auto& weight, auto... shape) {
    Fill{type, layer > 0}(name, weight, shape...);
  });
  CHECK(model->check() == "");
  return model;
}

}  // namespace small_model

// A small model made in memory, run by every set of kernels and by one and two threads, for runs
// under sanitizers. All of them must give the same bits.
#include "engine/engine.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "gguf/half.h"

namespace {

using maglio::Engine;
using maglio::Kernels;
using maglio::KvCache;
using maglio::Layer;
using maglio::Matrix;
using maglio::Model;
using maglio::TensorType;

std::mt19937 rng(20260105);

float noise(float size) { return size * (static_cast<float>(rng() % 2001) / 1000.0f - 1.0f); }

void put_half(uint8_t* at, float value) {
  const uint16_t half = maglio::float_to_half(value);
  std::memcpy(at, &half, sizeof(half));
}

// A row's bytes: random codes, with scales that keep the weights small.
std::vector<uint8_t> random_weights(TensorType type, int values) {
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
      case TensorType::kQ6_K:
        put_half(p + 208, 0.0001f);
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
        put_half(p, type == TensorType::kQ8_0 ? 0.001f : -0.01f);
    }
  }
  return out;
}

Matrix matrix(TensorType type, int rows, int cols) {
  Matrix out(type, rows, cols);
  const std::vector<uint8_t> source = random_weights(type, rows * cols);
  out.pack_tiles(source.data(), nullptr, 0, out.tiles());
  return out;
}

std::vector<float> vector(int size) {
  std::vector<float> out(static_cast<size_t>(size));
  for (float& x : out) x = 1.0f + noise(0.3f);
  return out;
}

// Two layers with every part a family can have; the first one sees 5 positions.
std::shared_ptr<const Model> small_model(TensorType type) {
  auto model = std::make_shared<Model>();
  maglio::ModelSpec& spec = model->spec;
  spec.n_layer = 2;
  spec.n_embd = 256;
  spec.n_head = 8;
  spec.n_kv_head = 2;
  spec.head_dim = 32;
  spec.n_ff = 256;
  spec.n_vocab = 37;  // the last tile is not full
  spec.norm_eps = 1e-6f;
  spec.attention_scale = 0.2f;
  spec.embedding_scale = 16;
  spec.activation = maglio::GateActivation::kGeluTanh;
  model->ropes.push_back({std::vector<double>(16, 0.3)});
  model->embedding = matrix(type, spec.n_vocab, spec.n_embd);
  model->output_norm = vector(spec.n_embd);
  for (int i = 0; i < spec.n_layer; ++i) {
    Layer layer;
    layer.attention_norm = vector(256);
    layer.ffn_norm = vector(256);
    layer.query = matrix(type, 256, 256);
    layer.key = matrix(type, 64, 256);
    layer.value = matrix(type, 64, 256);
    layer.output = matrix(type, 256, 256);
    layer.gate = matrix(type, 256, 256);
    layer.up = matrix(type, 256, 256);
    layer.down = matrix(type, 256, 256);
    if (i == 0) {
      layer.window = 5;
      layer.query_norm = vector(32);
      layer.key_norm = vector(32);
      layer.attention_post_norm = vector(256);
      layer.ffn_post_norm = vector(256);
    } else {
      layer.query_bias = vector(256);
      layer.key_bias = vector(64);
      layer.value_bias = vector(64);
    }
    model->layers.push_back(std::move(layer));
  }
  CHECK(model->check().empty());
  return model;
}

// Logits of tokens 0, 1, ... fed in chunks of `width`, in a cache without a place to spare.
std::vector<float> logits_of(Engine& engine, int n, int width) {
  const maglio::ModelSpec& spec = engine.model().spec;
  KvCache cache(spec, n);
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = i % spec.n_vocab;
  std::vector<float> out(static_cast<size_t>(n) * spec.n_vocab);
  for (int at = 0; at < n; at += width) {
    const int rows = std::min(width, n - at);
    engine.forward(cache, tokens.data() + at, rows, rows,
                   out.data() + static_cast<size_t>(at) * spec.n_vocab);
  }
  CHECK(cache.length() == n);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void kernels_threads_and_widths_agree() {
  for (TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ4_0, TensorType::kQ4_1,
        TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0, TensorType::kQ4_K,
        TensorType::kQ5_K, TensorType::kQ6_K}) {
    const std::shared_ptr<const Model> model = small_model(type);
    const int n = type == TensorType::kQ4_0 ? 70 : 12;  // beyond a block of 64 positions, once
    Engine definition(model, *maglio::find_kernels("portable"), 1);
    const std::vector<float> expected = logits_of(definition, n, 1);
    for (float logit : expected) CHECK(logit == logit);
    for (const Kernels* kernels : maglio::available_kernels()) {
      for (int threads : {1, 2}) {
        Engine engine(model, *kernels, threads);
        for (int width : {3, 11, 70}) CHECK(same_bits(logits_of(engine, n, width), expected));
      }
    }
  }
}

void forgetting_leaves_nothing_behind() {
  Engine engine(small_model(TensorType::kQ8_0), *maglio::find_kernels(""), 2);
  const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const size_t row = static_cast<size_t>(engine.model().spec.n_vocab);
  std::vector<float> first(8 * row), second(8 * row);
  KvCache cache(engine.model().spec, 8);
  engine.forward(cache, tokens, 8, 8, first.data());
  cache.truncate(3);
  engine.forward(cache, tokens, 5, 0, nullptr);  // other tokens, no logits
  cache.truncate(3);
  engine.forward(cache, tokens + 3, 5, 5, second.data() + 3 * row);
  CHECK(std::memcmp(first.data() + 3 * row, second.data() + 3 * row, 5 * row * sizeof(float)) == 0);
}

template <typename Function>
bool refused(Function function) {
  try {
    function();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

void what_cannot_be_fed_is_refused_and_changes_nothing() {
  Engine engine(small_model(TensorType::kF32), *maglio::find_kernels("portable"), 1);
  KvCache cache(engine.model().spec, 4);
  std::vector<float> logits(8 * 37);
  const int32_t good[] = {1, 2, 3, 4, 5}, negative[] = {1, -1}, large[] = {1, 37};
  CHECK(refused([&] { engine.forward(cache, good, 0, 0, logits.data()); }));
  CHECK(refused([&] { engine.forward(cache, good, 5, 1, logits.data()); }));
  CHECK(refused([&] { engine.forward(cache, good, 2, 3, logits.data()); }));
  CHECK(refused([&] { engine.forward(cache, negative, 2, 1, logits.data()); }));
  CHECK(refused([&] { engine.forward(cache, large, 2, 1, logits.data()); }));
  CHECK(cache.length() == 0);
  engine.forward(cache, good, 4, 1, logits.data());
  CHECK(refused([&] { engine.forward(cache, good, 1, 1, logits.data()); }));
  CHECK(refused([&] { cache.truncate(5); }));
  CHECK(refused([&] { cache.truncate(-1); }));
  CHECK(cache.length() == 4);
}

void a_model_with_a_wrong_part_does_not_pass_its_check() {
  Model model;
  model.spec = small_model(TensorType::kF32)->spec;
  CHECK(model.spec.check().empty());
  CHECK(!model.check().empty());  // no weights
  for (int strange : {0, -1, 8, 1 << 26, 0x7FFFFFFF}) {
    maglio::ModelSpec spec = model.spec;
    spec.head_dim = strange;
    CHECK(!spec.check().empty());
    spec.n_head = strange;
    CHECK(!spec.check().empty());
  }
}

}  // namespace

int main() {
  kernels_threads_and_widths_agree();
  forgetting_leaves_nothing_behind();
  what_cannot_be_fed_is_refused_and_changes_nothing();
  a_model_with_a_wrong_part_does_not_pass_its_check();
  std::puts("engine: ok");
  return 0;
}

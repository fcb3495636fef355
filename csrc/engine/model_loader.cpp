#include "engine/model_loader.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "engine/thread_pool.h"
#include "gguf/half.h"

namespace maglio {
namespace {

constexpr uint64_t kMaxDimension = 1 << 20;

const GgufTensor& find(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) throw GgufError("tensor '" + name + "' is missing");
  if (tensor->bytes == 0) {
    throw GgufError("tensor '" + name + "' has the type " + tensor_type_name(tensor->type) +
                    "; supported are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K "
                    "and Q6_K");
  }
  return *tensor;
}

// rows x cols of a tensor with one or two dimensions.
void check_shape(const GgufTensor& tensor, uint64_t& rows, uint64_t& cols) {
  cols = tensor.shape[0];
  rows = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  if (tensor.shape.size() > 2 || rows > kMaxDimension || cols > kMaxDimension) {
    throw GgufError("tensor '" + tensor.name + "' does not have the shape of a matrix");
  }
}

std::vector<float> read_floats(const GgufFile& file, const std::string& name) {
  const GgufTensor& tensor = find(file, name);
  uint64_t rows, cols;
  check_shape(tensor, rows, cols);
  const auto type = static_cast<TensorType>(tensor.type);
  if (rows != 1 ||
      (type != TensorType::kF32 && type != TensorType::kF16 && type != TensorType::kBF16)) {
    throw GgufError("tensor '" + name + "' must be a vector of F32, F16 or BF16");
  }
  const uint8_t* p = file.data() + tensor.offset;
  std::vector<float> out(static_cast<size_t>(cols));
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), p, out.size() * sizeof(float));
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, p + 2 * i, sizeof(bits));
    out[i] = type == TensorType::kF16 ? half_to_float(bits) : bfloat_to_float(bits);
  }
  return out;
}

Layer& layer_at(Model& model, int layer) {
  if (layer < 0 || static_cast<size_t>(layer) >= model.layers.size()) {
    throw std::invalid_argument("there is no layer " + std::to_string(layer));
  }
  return model.layers[static_cast<size_t>(layer)];
}

std::vector<float>& vector_role(Model& model, int layer, const std::string& role) {
  if (layer < 0 && role == "output_norm") return model.output_norm;
  Layer& l = layer_at(model, layer);
  if (role == "attention_norm") return l.attention_norm;
  if (role == "attention_post_norm") return l.attention_post_norm;
  if (role == "ffn_norm") return l.ffn_norm;
  if (role == "ffn_post_norm") return l.ffn_post_norm;
  if (role == "query_norm") return l.query_norm;
  if (role == "key_norm") return l.key_norm;
  if (role == "query_bias") return l.query_bias;
  if (role == "key_bias") return l.key_bias;
  if (role == "value_bias") return l.value_bias;
  throw std::invalid_argument("no vector has the role '" + role + "'");
}

// A place for a weight, and the shape it has to have there.
struct MatrixRole {
  Matrix& matrix;
  int rows, cols;
};

MatrixRole matrix_role(Model& model, int layer, const std::string& role) {
  const ModelSpec& s = model.spec;
  if (layer < 0 && role == "embedding") return {model.embedding, s.n_vocab, s.n_embd};
  if (layer < 0 && role == "head") return {model.head, s.n_vocab, s.n_embd};
  Layer& l = layer_at(model, layer);
  const int q_dim = s.n_head * s.head_dim, kv_dim = s.n_kv_head * s.head_dim;
  if (role == "query") return {l.query, q_dim, s.n_embd};
  if (role == "key") return {l.key, kv_dim, s.n_embd};
  if (role == "value") return {l.value, kv_dim, s.n_embd};
  if (role == "output") return {l.output, s.n_embd, q_dim};
  if (role == "gate") return {l.gate, s.n_ff, s.n_embd};
  if (role == "up") return {l.up, s.n_ff, s.n_embd};
  if (role == "down") return {l.down, s.n_embd, s.n_ff};
  throw std::invalid_argument("no matrix has the role '" + role + "'");
}

}  // namespace

std::shared_ptr<Model> make_model(const ModelSpec& spec) {
  const std::string complaint = spec.check();
  if (!complaint.empty()) throw std::invalid_argument(complaint);
  auto model = std::make_shared<Model>();
  model->spec = spec;
  model->layers.resize(static_cast<size_t>(spec.n_layer));
  return model;
}

void set_attention_kind(Model& model, int layer, int window, int rope) {
  layer_at(model, layer).window = window;
  layer_at(model, layer).rope = rope;
}

void load_vector(Model& model, const GgufFile& file, const std::string& tensor, int layer,
                 const std::string& role) {
  vector_role(model, layer, role) = read_floats(file, tensor);
}

void load_weight(Model& model, const GgufFile& file, const std::string& tensor, int layer,
                 const std::string& role, const std::vector<int32_t>& order, int threads) {
  const MatrixRole target = matrix_role(model, layer, role);
  uint64_t rows, cols;
  check_shape(find(file, tensor), rows, cols);
  // Before room is made for it: padding could make a misshapen tensor many times larger.
  if (rows != static_cast<uint64_t>(target.rows) || cols != static_cast<uint64_t>(target.cols)) {
    throw GgufError("tensor '" + tensor + "' is " + std::to_string(rows) + " x " +
                    std::to_string(cols) + ", expected " + std::to_string(target.rows) + " x " +
                    std::to_string(target.cols));
  }
  target.matrix = load_matrix(file, tensor, order, threads);
}

Matrix load_matrix(const GgufFile& file, const std::string& name, const std::vector<int32_t>& order,
                   int threads) {
  const GgufTensor& tensor = find(file, name);
  uint64_t rows, cols;
  check_shape(tensor, rows, cols);
  if (cols % kBlockValues != 0) {
    throw GgufError("tensor '" + name + "' has rows of " + std::to_string(cols) +
                    " values; multiples of " + std::to_string(kBlockValues) + " are supported");
  }
  if (!order.empty() && order.size() != rows) {
    throw GgufError("tensor '" + name + "' has " + std::to_string(rows) + " rows, expected " +
                    std::to_string(order.size()));
  }
  for (int32_t row : order) {
    if (row < 0 || static_cast<uint64_t>(row) >= rows) throw std::invalid_argument("bad order");
  }
  Matrix matrix(static_cast<TensorType>(tensor.type), static_cast<int>(rows),
                static_cast<int>(cols));
  const auto pack = [&](int member) {
    const Share tiles = share_of(matrix.tiles(), member, threads);
    matrix.pack_tiles(file.data() + tensor.offset, order.empty() ? nullptr : order.data(),
                      tiles.begin, tiles.end);
  };
  std::vector<std::thread> helpers;
  // Small matrices are packed sooner than a thread starts.
  const bool large = tensor.bytes > (1 << 20);
  if (!large) threads = 1;
  for (int member = 1; member < threads; ++member) helpers.emplace_back(pack, member);
  pack(0);
  for (std::thread& helper : helpers) helper.join();
  return matrix;
}

}  // namespace maglio

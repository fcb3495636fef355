#include "engine/model.h"

namespace maglio {
namespace {

std::string check_dimension(const char* name, int64_t value, int multiple, int maximum) {
  if (value > 0 && value <= maximum && value % multiple == 0) return "";
  const std::string what = multiple > 1 ? "multiples of " + std::to_string(multiple) : "values";
  return std::string(name) + " is " + std::to_string(value) + "; " + what + " up to " +
         std::to_string(maximum) + " are supported";
}

std::string check_matrix(const char* name, const Matrix& m, int rows, int cols) {
  if (m.rows() == rows && m.cols() == cols) return "";
  return std::string(name) + " is " + std::to_string(m.rows()) + " x " + std::to_string(m.cols()) +
         ", expected " + std::to_string(rows) + " x " + std::to_string(cols);
}

std::string check_vector(const char* name, const std::vector<float>& v, int size, bool optional) {
  if (v.size() == static_cast<size_t>(size) || (optional && v.empty())) return "";
  return std::string(name) + " has " + std::to_string(v.size()) + " values, expected " +
         std::to_string(size);
}

// The first complaint among several checks.
std::string first_of(std::initializer_list<std::string> complaints) {
  for (const std::string& complaint : complaints) {
    if (!complaint.empty()) return complaint;
  }
  return "";
}

std::string check_layer(const ModelSpec& s, const Layer& l, size_t n_ropes) {
  const int q_dim = s.n_head * s.head_dim, kv_dim = s.n_kv_head * s.head_dim;
  if (l.window < 0) return "a sliding window is negative";
  if (l.rope < 0 || static_cast<size_t>(l.rope) >= n_ropes) return "a rotation is not defined";
  return first_of({
      check_vector("the attention norm", l.attention_norm, s.n_embd, false),
      check_vector("the feed-forward norm", l.ffn_norm, s.n_embd, false),
      check_vector("the attention post-norm", l.attention_post_norm, s.n_embd, true),
      check_vector("the feed-forward post-norm", l.ffn_post_norm, s.n_embd, true),
      check_vector("the query norm", l.query_norm, s.head_dim, true),
      check_vector("the key norm", l.key_norm, s.head_dim, true),
      check_vector("the query bias", l.query_bias, q_dim, true),
      check_vector("the key bias", l.key_bias, kv_dim, true),
      check_vector("the value bias", l.value_bias, kv_dim, true),
      check_matrix("the query weight", l.query, q_dim, s.n_embd),
      check_matrix("the key weight", l.key, kv_dim, s.n_embd),
      check_matrix("the value weight", l.value, kv_dim, s.n_embd),
      check_matrix("the attention output weight", l.output, s.n_embd, q_dim),
      check_matrix("the gate weight", l.gate, s.n_ff, s.n_embd),
      check_matrix("the up weight", l.up, s.n_ff, s.n_embd),
      check_matrix("the down weight", l.down, s.n_embd, s.n_ff),
  });
}

}  // namespace

size_t Model::weight_bytes() const {
  size_t bytes = embedding.bytes() + head.bytes();
  for (const Layer& l : layers) {
    for (const Matrix* m : {&l.query, &l.key, &l.value, &l.output, &l.gate, &l.up, &l.down}) {
      bytes += m->bytes();
    }
  }
  return bytes;
}

std::string ModelSpec::check() const {
  constexpr int kMaxDimension = 1 << 20, kMaxLayers = 4096;
  const int64_t q_dim = static_cast<int64_t>(n_head) * head_dim;
  return first_of({
      check_dimension("the number of layers", n_layer, 1, kMaxLayers),
      check_dimension("the vocabulary", n_vocab, 1, kMaxDimension),
      check_dimension("the embedding length", n_embd, 32, kMaxDimension),
      check_dimension("the feed-forward length", n_ff, 32, kMaxDimension),
      check_dimension("the head dimension", head_dim, 16, kMaxHeadDim),
      check_dimension("the width of all query heads", q_dim, 32, kMaxDimension),
      check_dimension("the number of key/value heads", n_kv_head, 1, kMaxDimension),
      check_dimension("the number of query heads", n_head, n_kv_head > 0 ? n_kv_head : 1,
                      kMaxDimension),
  });
}

std::string Model::check() const {
  const ModelSpec& s = spec;
  std::string complaint = first_of({
      s.check(),
      check_vector("the output norm", output_norm, s.n_embd, false),
      check_matrix("the embedding", embedding, s.n_vocab, s.n_embd),
  });
  if (!complaint.empty()) return complaint;
  if (layers.size() != static_cast<size_t>(s.n_layer)) return "a layer is missing";
  if (!head.empty()) {
    complaint = check_matrix("the output head", head, s.n_vocab, s.n_embd);
    if (!complaint.empty()) return complaint;
  }
  for (const RopeSpec& rope : ropes) {
    if (rope.inverse_frequencies.size() * 2 != static_cast<size_t>(s.head_dim)) {
      return "a rotation does not cover the head dimension";
    }
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    complaint = check_layer(s, layers[i], ropes.size());
    if (!complaint.empty()) return "layer " + std::to_string(i) + ": " + complaint;
  }
  return "";
}

}  // namespace maglio

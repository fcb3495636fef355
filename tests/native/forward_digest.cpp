// Prints a digest of every logit of small models, a line per model, computed by the best kernels of
// the processor. Builds for different processors must print the same lines, but for the kernels'
// names at their ends. (engine_test compares the kernels of one processor.)
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "small_model.h"

namespace {

// FNV-1a.
struct Digest {
  uint64_t value = 14695981039346656037u;

  void add(float x) {
    const uint32_t bits = maglio::float_to_bits(x);
    for (int shift = 0; shift < 32; shift += 8) {
      value = (value ^ ((bits >> shift) & 255)) * 1099511628211u;
    }
  }
};

// 80 positions, in wide forwards and in plain steps.
uint64_t digest_of(const std::shared_ptr<const maglio::Model>& model,
                   const maglio::Kernels& kernels) {
  constexpr int kTokens = 80;
  maglio::Engine engine(model, kernels, 1);
  const std::shared_ptr<maglio::Cache> cache = engine.new_cache(kTokens);
  const size_t n_vocab = static_cast<size_t>(model->spec.n_vocab);
  Digest digest;
  for (int n : {62, 1, 1, 1, 15}) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back((cache->length() + i) * 5 % 37);
    std::vector<float> logits(static_cast<size_t>(n) * n_vocab);
    const maglio::Segment segment{cache.get(), tokens.data(), n, n};
    engine.forward(&segment, 1, logits.data());
    for (float logit : logits) {
      CHECK(logit == logit);
      digest.add(logit);
    }
  }
  return digest.value;
}

void print(const char* name, maglio::TensorType type, const maglio::ModelSpec& spec) {
  const std::shared_ptr<const maglio::Model> model = small_model::make(type, spec);
  const maglio::Kernels& kernels = *maglio::find_kernels("");
  std::printf("%s %s %016" PRIx64 " %s\n", name,
              maglio::tensor_type_name(static_cast<uint32_t>(type)), digest_of(model, kernels),
              kernels.isa);
}

}  // namespace

int main() {
  using maglio::TensorType;
  for (TensorType type : small_model::kTypes) print("small", type, small_model::spec());
  print("ragged", TensorType::kF32, small_model::ragged_spec());
  print("ragged", TensorType::kF16, small_model::ragged_spec());
  return 0;
}

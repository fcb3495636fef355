#include "engine/model.h"

#include <utility>

namespace maglio {
namespace {

Mixer part_of(const AttentionSpec& spec) { return Attention{spec}; }
Mixer part_of(const DeltaNetSpec& spec) { return DeltaNet{spec}; }
Mixer part_of(const ShortConvSpec& spec) { return ShortConv{spec}; }
FeedForward part_of(const GatedSpec& spec) { return Gated{spec}; }
FeedForward part_of(const ExpertsSpec& spec) { return Experts{spec}; }
FeedForward part_of(const ParallelSpec& spec) {
  Parallel part;
  part.dense.spec = spec.dense;
  part.experts.spec = spec.experts;
  return part;
}

template <typename Visitor>
void visit_all(const Model& model, Visitor& v) {
  Model::visit(model, v, [&v](size_t layer, const char* name, const auto& weight, auto... shape) {
    v(tensor_name(layer, name), weight, shape...);
  });
}

}  // namespace

Model::Model(ModelSpec of) : spec(std::move(of)), layers(spec.layers.size()) {
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].mixer = std::visit([](const auto& s) { return part_of(s); }, spec.layers[i].mixer);
    layers[i].input.n = spec.n_embd_per_layer;
    layers[i].feed_forward =
        std::visit([](const auto& s) { return part_of(s); }, spec.layers[i].feed_forward);
  }
}

size_t Model::weight_bytes() const {
  CountBytes count;
  visit_all(*this, count);
  return count.bytes();
}

std::string Model::check() const {
  const std::string complaint = spec.check();
  if (!complaint.empty()) return complaint;
  if (layers.size() != spec.layers.size()) return "a layer is missing";
  CheckShapes shapes;
  visit_all(*this, shapes);
  return shapes.complaint();
}

}  // namespace maglio

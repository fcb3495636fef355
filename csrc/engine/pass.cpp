#include "engine/pass.h"

namespace maglio {
namespace {

// Into how many runs a product is cut per member: enough to even out, few enough to keep long
// sequential reads.
constexpr int kRunsPerMember = 8;

void fit_floats(std::vector<float>& buffer, int rows, int cols) {
  const size_t n = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  if (buffer.size() < n) buffer.resize(n);
}

}  // namespace

void ActivationBuffer::fit(int rows, int cols) {
  const size_t n = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  if (values_.size() >= n) return;
  codes_.resize(n);
  scales_.resize(n / kBlockValues);
  scaled_sums_.resize(n / kBlockValues);
  neg_sums_.resize(n / kBlockValues * 2);
  values_.resize(n);  // last, since its size speaks for all
}

Activations ActivationBuffer::view(int cols) {
  return {cols,           values_.data(),      codes_.data(),
          scales_.data(), scaled_sums_.data(), neg_sums_.data()};
}

Scratch::Scratch(const Model& model)
    : ropes(model.spec.ropes.size()),
      next_tile(model.layers.size() * kLayerPhases + kModelPhases),
      n_embd_(model.spec.n_embd) {}

void Scratch::fit(const Model& model, int rows, int all_rows, int positions) {
  all_rows_ = all_rows;
  const ModelSpec& spec = model.spec;
  const int width = padded(spec.n_embd);
  fit_floats(residual, rows, width);
  fit_floats(projected, rows, width);
  embd_in.fit(rows, width);
  for (const LayerSpec& layer : spec.layers) {
    std::visit([&](const auto& part) { fit_part(part, rows); }, layer.mixer);
    std::visit([&](const auto& part) { fit_part(part, rows); }, layer.feed_forward);
  }
  const int embeddings = static_cast<int>(spec.n_embd_all_layers());
  fit_floats(layer_embeddings, rows, embeddings);
  fit_floats(layer_projected, rows, embeddings);
  fit_floats(gate, rows, spec.n_embd_per_layer);
  ffn_in.fit(rows, spec.n_embd_per_layer);
  for (size_t i = 0; i < ropes.size(); ++i) ropes[i].grow(spec.ropes[i], positions);
}

void Scratch::fit_part(const AttentionSpec& spec, int rows) {
  fit_floats(query, rows, spec.projected_rows());
  fit_floats(key, rows, spec.kv_rows());
  fit_floats(value, rows, spec.kv_rows());
  if (spec.gathers()) fit_floats(attended, rows, spec.query_rows());
  attention_in.fit(rows, padded(spec.output_cols()));
}

void Scratch::fit_part(const DeltaNetSpec& spec, int rows) {
  fit_floats(recurrent.inputs, rows, spec.input_width());
  fit_floats(recurrent.gate, rows, spec.value_cols());
  fit_floats(recurrent.mixed, all_rows_, spec.channels());
  fit_floats(recurrent.decays, all_rows_, spec.n_value_head);
  fit_floats(recurrent.rates, all_rows_, spec.n_value_head);
  fit_floats(recurrent.recalled, all_rows_, spec.value_cols());
  attention_in.fit(rows, padded(spec.value_cols()));
}

void Scratch::fit_part(const ShortConvSpec& spec, int rows) {
  fit_floats(recurrent.inputs, rows, spec.input_width());
  fit_floats(recurrent.gate, rows, 3 * spec.channels);
  attention_in.fit(rows, padded(spec.channels));
}

void Scratch::fit_part(const GatedSpec& spec, int rows) {
  const int width = padded(spec.n_ff);
  fit_floats(gate, rows, width);
  fit_floats(up, rows, width);
  ffn_in.fit(rows, width);
}

void Scratch::fit_part(const ExpertsSpec& spec, int rows) {
  const int places = rows * spec.n_used, shared_width = padded(spec.n_shared_ff);
  experts.routing.fit(spec, rows);
  experts.gate_up.reserve(2 * static_cast<size_t>(spec.n_expert) + 2);
  experts.down.reserve(static_cast<size_t>(spec.n_expert) + 1);
  if (spec.norms_router) experts.router_in.fit(rows, n_embd_);
  experts.in.fit(places, n_embd_);
  fit_floats(experts.outputs, places, n_embd_);
  fit_floats(gate, places, spec.n_ff);
  fit_floats(up, places, spec.n_ff);
  ffn_in.fit(places, spec.n_ff);
  if (spec.n_shared_ff == 0) return;
  fit_floats(experts.shared_gate, rows, shared_width);
  fit_floats(experts.shared_up, rows, shared_width);
  experts.shared_in.fit(rows, shared_width);
  fit_floats(experts.shared_out, rows, n_embd_);
  fit_floats(experts.shared_weights, rows, 1);
}

void Scratch::fit_part(const ParallelSpec& spec, int rows) {
  fit_part(spec.dense, rows);
  fit_part(spec.experts, rows);
  fit_floats(dense, rows, padded(n_embd_));
}

const float* Pass::recurrent_input(const RowRange& range, int layer, int position) const {
  const Advance& advance = range.advance();
  if (position < advance.base) {
    const float* input = advance.input(position);
    return input ? input + recurrent.row_at(layer) : nullptr;
  }
  const size_t row = static_cast<size_t>(range.first + position - advance.base);
  return scratch.recurrent.inputs.data() + row * recurrent.input_width(layer);
}

void Pass::keep_inputs(int member, int layer) const {
  const size_t width = recurrent.input_width(layer);
  const Share mine = share_of(n(), member, team());
  for (int row = mine.begin; row < mine.end; ++row) {
    const Row& of = rows[static_cast<size_t>(row)];
    float* kept = of.cache->states().advance().input_kept(of.position);
    if (!kept) continue;
    std::copy_n(scratch.recurrent.inputs.data() + static_cast<size_t>(row) * width, width,
                kept + recurrent.row_at(layer));
  }
}

void Pass::norm_input(int from, int to, const Vector& weight, bool quantize) {
  const Activations in = scratch.embd_in.view(width());
  float* out = in.values + static_cast<size_t>(to) * width();
  if (weight.empty()) {
    std::copy_n(residual(from), model.spec.n_embd, out);
  } else {
    kernels.rms_norm(residual(from), weight.data(), model.spec.n_embd, model.spec.norm_eps, out);
  }
  if (!quantize) return;
  const size_t blocks = static_cast<size_t>(width()) / kBlockValues;
  kernels.quantize(in, blocks * to, blocks * (to + 1));
}

void Pass::scale(int row, float factor) const {
  if (factor == 1.0f) return;
  float* x = residual(row);
  for (int i = 0; i < model.spec.n_embd; ++i) x[i] *= factor;
}

void Pass::norm_output(float* y, const Vector& bias, const Vector& norm) const {
  const int n_embd = model.spec.n_embd;
  if (!bias.empty()) kernels.add(y, bias.data(), n_embd);
  if (!norm.empty()) kernels.rms_norm(y, norm.data(), n_embd, model.spec.norm_eps, y);
}

void Pass::join(int row, const Vector& bias, const Vector& post_norm) {
  const int n_embd = model.spec.n_embd;
  float* y = scratch.projected.data() + static_cast<size_t>(row) * width();
  norm_output(y, bias, post_norm);
  if (model.spec.residual_scale != 1.0f) {
    for (int i = 0; i < n_embd; ++i) y[i] *= model.spec.residual_scale;
  }
  kernels.add(residual(row), y, n_embd);
}

// Members take runs of tiles as they come free, since cores are not always equally fast or idle.
// Who computes a tile does not matter to its bits.
void Pass::project(int phase, const Product* products, size_t count) {
  const auto tiles_of = [](const Product& p) { return (p.w.rows + kTileRows - 1) / kTileRows; };
  std::atomic<int>& next = scratch.next_tile[static_cast<size_t>(phase)];
  int total = 0;
  for (size_t i = 0; i < count; ++i) total += tiles_of(products[i]);
  const int run = std::max(1, total / (team() * kRunsPerMember));
  for (int begin = next.fetch_add(run); begin < total; begin = next.fetch_add(run)) {
    int first = begin, last = std::min(begin + run, total);
    for (size_t i = 0; i < count && last > 0; ++i) {
      const Product& product = products[i];
      const int tiles = tiles_of(product);
      if (first < std::min(last, tiles)) {
        kernels.matmul(product.w, product.x, product.first_row, product.rows, first,
                       std::min(last, tiles), product.out, static_cast<size_t>(product.stride));
      }
      first = std::max(0, first - tiles);
      last = std::max(0, last - tiles);
    }
  }
  pool.barrier();
}

}  // namespace maglio

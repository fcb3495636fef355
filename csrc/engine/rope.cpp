#include "engine/rope.h"

#include "math/elementary.h"

namespace maglio {
namespace {

constexpr size_t kStep = 1024;

}  // namespace

void RopeTable::grow(const RopeSpec& spec, int positions) {
  half_ = spec.inverse_frequencies.size();
  const size_t from = cosines_.size() / half_;
  const size_t to = (static_cast<size_t>(positions) + kStep - 1) / kStep * kStep;
  if (to <= from) return;
  sines_.resize(half_ * to);
  cosines_.resize(half_ * to);  // its size says how far both go
  for (size_t p = from; p < to; ++p) {
    for (size_t i = 0; i < half_; ++i) {
      const CosSin at = cos_sin(static_cast<double>(p) * spec.inverse_frequencies[i]);
      cosines_[p * half_ + i] = static_cast<float>(at.cosine * spec.magnitude);
      sines_[p * half_ + i] = static_cast<float>(at.sine * spec.magnitude);
    }
  }
}

}  // namespace maglio

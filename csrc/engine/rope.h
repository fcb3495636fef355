// Rotations of query and key heads by position.
#pragma once

#include <cstddef>
#include <vector>

namespace maglio {

// Frequencies of a kind of layer: angle = position * inverse_frequency[i].
struct RopeSpec {
  std::vector<double> inverse_frequencies;  // of each rotated pair
  double magnitude = 1;                     // of the cosines and sines
};

// Cosines and sines of every position so far.
class RopeTable {
 public:
  // Covers positions [0, positions), and some more, so that a decoding loop rarely waits for it.
  void grow(const RopeSpec& spec, int positions);

  const float* cosines(int position) const { return cosines_.data() + offset(position); }
  const float* sines(int position) const { return sines_.data() + offset(position); }

 private:
  size_t offset(int position) const { return static_cast<size_t>(position) * half_; }

  size_t half_ = 0;
  std::vector<float> cosines_, sines_;
};

}  // namespace maglio

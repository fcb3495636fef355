// How weights are declared: each is a member, and one line in its owner's visit(). Loading, checks
// and byte counts are visitors, so that none of them can forget a weight.
//
// A visitor is called as
//   v(name, Matrix&, rows, cols, presence = kRequired, order = RowOrder{}, matrices = 1)
//   v(name, EmbeddingTable&, rows, cols, presence = kRequired)
//   v(name, Vector&, size, presence = kRequired, order = RowOrder{}, vectors = 1)
//   v(name, Taps&, channels, taps)
// with references to const where the owner is const. Sizes are those of the file; an order may add
// rows of zeros, and vectors end in zeros up to a multiple of 32. A file may have `matrices` of
// equal shape as one tensor; they are one Matrix, one below the other, and `rows` counts all of
// them. Likewise `vectors` of equal size are one Vector.
#pragma once

#include <string>
#include <vector>

#include "engine/embedding_table.h"
#include "engine/matrix.h"
#include "engine/spec.h"

namespace maglio {

using Vector = std::vector<float>;

// The taps of a convolution for each channel, which is a row of the file: [channel / 16][tap][16].
struct Taps {
  int channels = 0, taps = 0;
  std::vector<float> values;

  Taps() = default;
  Taps(int n_channels, int n_taps)
      : channels(n_channels),
        taps(n_taps),
        values(static_cast<size_t>((n_channels + 15) / 16 * 16) * static_cast<size_t>(n_taps)) {}
  float& at(int channel, int tap) {
    return values[static_cast<size_t>((channel / 16 * taps + tap) * 16 + channel % 16)];
  }
  const float* from(int channel) const {
    return values.data() + static_cast<size_t>(channel) * static_cast<size_t>(taps);
  }
};

enum Presence { kRequired, kIfPresent, kAbsent };

// Bytes of all matrices and tables.
class CountBytes {
 public:
  template <typename... Shape>
  void operator()(const std::string&, const Matrix& m, Shape...) {
    bytes_ += m.bytes();
  }
  template <typename... Shape>
  void operator()(const std::string&, const EmbeddingTable& t, Shape...) {
    bytes_ += t.bytes();
  }
  template <typename... Shape>
  void operator()(const std::string&, const Vector&, Shape...) {}
  template <typename... Shape>
  void operator()(const std::string&, const Taps&, Shape...) {}
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// The first weight that is missing, superfluous or misshapen.
class CheckShapes {
 public:
  void operator()(const std::string& name, const Matrix& m, int rows, int cols,
                  Presence presence = kRequired, RowOrder order = {}, int = 1) {
    if (!absent_as_it_may(name, m.empty(), presence)) {
      check_size(name, m.rows(), m.cols(), order.placed(rows), cols);
    }
  }
  void operator()(const std::string& name, const EmbeddingTable& t, int rows, int cols,
                  Presence presence = kRequired) {
    if (!absent_as_it_may(name, t.empty(), presence)) {
      check_size(name, t.rows(), t.cols(), rows, cols);
    }
  }
  void operator()(const std::string& name, const Vector& v, int size, Presence presence = kRequired,
                  RowOrder order = {}, int = 1) {
    if (absent_as_it_may(name, v.empty(), presence)) return;
    const int expected = padded(order.placed(size));
    if (v.size() == static_cast<size_t>(expected)) return;
    complain("tensor '" + name + "' has " + std::to_string(v.size()) + " values, expected " +
             std::to_string(expected));
  }
  void operator()(const std::string& name, const Taps& t, int channels, int taps) {
    if (t.channels == channels && t.taps == taps) return;
    complain("tensor '" + name + "' is " + std::to_string(t.channels) + " x " +
             std::to_string(t.taps) + ", expected " + std::to_string(channels) + " x " +
             std::to_string(taps));
  }
  const std::string& complaint() const { return complaint_; }

 private:
  bool absent_as_it_may(const std::string& name, bool absent, Presence presence) {
    if (presence == kAbsent && !absent) complain("tensor '" + name + "' is superfluous");
    return presence == kAbsent || (absent && presence == kIfPresent);
  }
  void check_size(const std::string& name, int rows, int cols, int expected_rows,
                  int expected_cols) {
    if (rows == expected_rows && cols == expected_cols) return;
    complain("tensor '" + name + "' is " + std::to_string(rows) + " x " + std::to_string(cols) +
             ", expected " + std::to_string(expected_rows) + " x " + std::to_string(expected_cols));
  }
  void complain(const std::string& complaint) {
    if (complaint_.empty()) complaint_ = complaint;
  }

  std::string complaint_;
};

}  // namespace maglio

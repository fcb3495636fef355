// From the tensors of a file to matrices: reading and packing, by several threads.
//
// Tensors are cut into slices of about a megabyte. Threads take slices in the order in which they
// are in the file, and read each into a buffer of their own, so that loading needs no more memory
// than the matrices and the buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/matrix.h"
#include "gguf/gguf.h"

namespace maglio {

// A matrix and where its rows are: row r is row first_row + order[r] of the tensor, zeros where
// order[r] is negative, or row first_row + r where `order` is empty.
struct Packing {
  Matrix* matrix;
  const GgufTensor* tensor;
  int first_row;
  std::vector<int32_t> order;
  int together = 1;  // tiles that need the same rows: those of a head, where `order` mixes its rows
};

// Is told now and then how many bytes of tensors are packed, of how many. What it throws ends the
// work.
using Progress = std::function<void(uint64_t done, uint64_t all)>;

// Fills the matrices, which have their shapes and memory. `progress` is called by this thread.
// Throws GgufError when the file cannot be read, or whatever `progress` throws; the matrices have
// any content then.
void pack_all(const GgufFile& file, const std::vector<Packing>& packings, int threads,
              const Progress& progress);

}  // namespace maglio

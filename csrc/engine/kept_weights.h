// Repacked matrices in a file, so that the next load maps them instead of reading the model.
//
// The file is a header and the tiles of all matrices in the model's order, each from a multiple of
// 4096 bytes on, in the byte order of the machine. Any tiles are safe to compute with. The file
// has to stay as it is while it is mapped: cutting it short ends the program (SIGBUS), so it is
// written once, under another name, and renamed.
#pragma once

#include <stdexcept>
#include <vector>

#include "engine/packing.h"

namespace maglio {

struct KeptWeightsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Tells apart everything that tiles depend on: sizes, times and headers of the model's parts, what
// becomes of their tensors, and how tiles are laid out now.
uint64_t kept_key(const GgufFile& file, const std::vector<Packing>& packings);

// Of the file that write_kept() writes.
uint64_t kept_bytes(const std::vector<Packing>& packings);

// Writes the matrices to an open, empty file. Throws KeptWeightsError, or what `progress` throws.
void write_kept(const std::vector<Packing>& packings, uint64_t key, int descriptor,
                const Progress& progress);

// Maps an open file and makes the matrices parts of it. Throws KeptWeightsError when it is not what
// write_kept() wrote for `key`; no matrix has changed then.
void map_kept(const std::vector<Packing>& packings, uint64_t key, int descriptor);

}  // namespace maglio

// How the blocks of 16 rows lie in a unit of a tile (kernels/matrix_view.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/matrix_view.h"

namespace maglio {

// What is done to an item on its way, and undone on the way back.
enum class Change : uint8_t {
  kNone,
  kFlip,    // the top bit of each byte: signed numbers become unsigned ones
  kSpread,  // bit 4 g + t of a word becomes bit 8 t + g
};

// A run of items of a block.
struct Piece {
  int items;
  int bytes;  // of an item: 1, 2 or 4
  Change change = Change::kNone;
};

// A block of a layout: how many values it stands for, and its pieces in order.
struct BlockPieces {
  int values;
  std::vector<Piece> pieces;

  size_t bytes() const;
};

// Of a matrix with rows of `cols` values. Floats lie one by one, so any number of them is a block.
BlockPieces pieces_of(Layout layout, int cols);

// Puts a block in lane `lane` of a unit, or takes it out again.
void interleave(const BlockPieces& of, const uint8_t* block, int lane, uint8_t* unit);
void separate(const BlockPieces& of, const uint8_t* unit, int lane, uint8_t* block);

}  // namespace maglio

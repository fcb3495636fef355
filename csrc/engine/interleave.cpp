#include "engine/interleave.h"

#include <cstring>

namespace maglio {
namespace {

uint32_t spread(uint32_t word) {
  uint32_t out = 0;
  for (int t = 0; t < 4; ++t) {
    uint32_t bits = (word >> t) & 0x11111111u;  // of the eight groups
    bits = (bits | bits >> 3) & 0x03030303u;
    bits = (bits | bits >> 6) & 0x000F000Fu;
    out |= ((bits | bits >> 12) & 0xFFu) << (8 * t);
  }
  return out;
}

uint32_t gather(uint32_t word) {
  uint32_t out = 0;
  for (int bit = 0; bit < 32; ++bit) out |= ((word >> bit) & 1) << (bit % 8 * 4 + bit / 8);
  return out;
}

template <typename Item, typename Change>
void move_items(int items, const uint8_t* from, size_t from_step, uint8_t* to, size_t to_step,
                Change change) {
  for (int i = 0; i < items; ++i, from += from_step, to += to_step) {
    Item item;
    std::memcpy(&item, from, sizeof(item));
    item = static_cast<Item>(change(item));
    std::memcpy(to, &item, sizeof(item));
  }
}

// Moves the items of a piece, `from_step` and `to_step` bytes apart.
void move_piece(const Piece& piece, bool back, const uint8_t* from, size_t from_step, uint8_t* to,
                size_t to_step) {
  const auto move = [&](auto item, auto change) {
    move_items<decltype(item)>(piece.items, from, from_step, to, to_step, change);
  };
  const auto same = [](auto item) { return item; };
  if (piece.change == Change::kSpread) {
    if (back) return move(uint32_t{}, gather);
    return move(uint32_t{}, spread);
  }
  if (piece.change == Change::kFlip) {
    const auto flip = [](auto item) { return item ^ static_cast<decltype(item)>(0x80808080u); };
    if (piece.bytes == 1) return move(uint8_t{}, flip);
    return move(uint32_t{}, flip);
  }
  if (piece.bytes == 1) return move(uint8_t{}, same);
  if (piece.bytes == 2) return move(uint16_t{}, same);
  return move(uint32_t{}, same);
}

}  // namespace

size_t BlockPieces::bytes() const {
  size_t total = 0;
  for (const Piece& piece : pieces) total += static_cast<size_t>(piece.items * piece.bytes);
  return total;
}

BlockPieces pieces_of(Layout layout, int cols) {
  const Piece half{1, 2}, fifth_bits{1, 4, Change::kSpread};
  const auto bytes = [](int n) { return Piece{n, 1}; };
  const auto words = [](int n) { return Piece{n, 4}; };
  const int floats = cols % 32 == 0 ? 32 : 1;
  switch (layout) {
    case Layout::kQ4_0:
    case Layout::kIQ4_NL:
      return {32, {half, words(4)}};
    case Layout::kQ4_1:
      return {32, {half, half, words(4)}};
    case Layout::kQ5_0:
      return {32, {half, fifth_bits, words(4)}};
    case Layout::kQ5_1:
      return {32, {half, half, fifth_bits, words(4)}};
    case Layout::kQ8_0:
      return {32, {half, {8, 4, Change::kFlip}}};
    case Layout::kQ2_K:
      return {256, {bytes(16), words(16), half, half}};
    case Layout::kQ3_K:
      return {256, {words(8), words(16), bytes(12), half}};
    case Layout::kQ4_K:
      return {256, {half, half, bytes(12), words(32)}};
    case Layout::kQ5_K:
      return {256, {half, half, bytes(12), words(8), words(32)}};
    case Layout::kQ6_K:
      return {256, {words(32), words(16), bytes(16), half}};
    case Layout::kIQ4_XS:
      return {256, {half, bytes(2), bytes(4), words(32)}};
    case Layout::kMXFP4:
      return {32, {{1, 1, Change::kFlip}, words(4)}};
    case Layout::kGrid:
      return {256, {words(1), bytes(16), words(32)}};
    case Layout::kFloat16:
    case Layout::kBFloat16:
      return {floats, {{floats, 2}}};
    case Layout::kFloat32:
      return {floats, {{floats, 4}}};
  }
  return {};
}

void interleave(const BlockPieces& of, const uint8_t* block, int lane, uint8_t* unit) {
  for (const Piece& piece : of.pieces) {
    const size_t step = static_cast<size_t>(piece.bytes);
    move_piece(piece, false, block, step, unit + step * static_cast<size_t>(lane),
               step * kTileRows);
    block += step * static_cast<size_t>(piece.items);
    unit += step * static_cast<size_t>(piece.items) * kTileRows;
  }
}

void separate(const BlockPieces& of, const uint8_t* unit, int lane, uint8_t* block) {
  for (const Piece& piece : of.pieces) {
    const size_t step = static_cast<size_t>(piece.bytes);
    move_piece(piece, true, unit + step * static_cast<size_t>(lane), step * kTileRows, block, step);
    block += step * static_cast<size_t>(piece.items);
    unit += step * static_cast<size_t>(piece.items) * kTileRows;
  }
}

}  // namespace maglio

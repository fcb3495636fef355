// Place: where a stream that copies from a text has got to in it.
//
// A copy mostly goes on where it left off: edits keep the order of what they keep, calls name
// arguments in the order of their schema, answers quote along a document. So the place after the
// last token that was right tells more than the occurrences of a short context alone.
//
// A token is right if it is the one at the place, or the one with which the longest match of at
// least kFirmMatch tokens goes on, which moves the place there. When a token is wrong, the place is
// looked for near the last right one, kAhead tokens ahead and kBehind behind it: where most of the
// last tokens of the stream, up to kCompared, come before; of equal ones ahead before behind, and
// the nearest. Where not even one token agrees, one guess is made: that one token was replaced.
//
// O(kAhead + kBehind) steps over consecutive memory for a wrong token, O(1) for a right one. What
// is read in bulk, as a prompt, is searched for its last kSearched tokens alone.
#ifndef MAGLIO_PLACE_H_
#define MAGLIO_PLACE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "draft/edge_blocks.h"

namespace maglio {

class Place {
 public:
  static constexpr int32_t kAhead = 256;
  static constexpr int32_t kBehind = 64;
  static constexpr int32_t kCompared = 32;
  static constexpr int32_t kFirmMatch = 2;
  static constexpr size_t kSearched = 32;

  // Where a match goes on in the text, and how many tokens match.
  struct Match {
    int32_t next = kNone;
    int32_t length = 0;
  };

  // The stream goes on with `token`. `match` is what it matched before it. `text` has `size`
  // tokens; where it is the stream itself, `token` is its last one. `upcoming` is how many tokens
  // are known to follow. A `match` from an index that is damaged may lie outside the text.
  void follow(const int32_t* text, int32_t size, int32_t token, const Match& match,
              size_t upcoming);
  // The text lost its first `count` tokens.
  void drop(int32_t count);

  // The position of the text that is expected next; kNone if nothing is.
  int32_t next() const { return next_; }
  // How many tokens agree up to there; 0 for the guess that one was replaced.
  int32_t agreed() const { return agreed_; }

 private:
  void search(const int32_t* text, int32_t size);
  int32_t agreement(const int32_t* text, int32_t place) const;
  int32_t said(int32_t back) const;

  int32_t next_ = kNone;
  int32_t agreed_ = 0;
  int32_t last_ = kNone;  // behind the last right token
  int32_t wrong_ = 0;     // tokens since then
  uint32_t count_ = 0;    // tokens of the stream
  std::array<int32_t, kCompared> said_{};
};

}  // namespace maglio

#endif  // MAGLIO_PLACE_H_

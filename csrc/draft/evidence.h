// Evidence: how sure an index is that a token follows a context, from occurrences alone.
//
// A context was seen `contexts` times, `followed` of them with this token after it. Two contexts of
// the same length differ much in what they promise: one that was always followed by the token is
// right twice as often as one that was followed by others too (docs/drafting.md has the figures).
#ifndef MAGLIO_EVIDENCE_H_
#define MAGLIO_EVIDENCE_H_

#include <cstdint>

namespace maglio {

enum Evidence : uint8_t {
  kOnce,       // the context was seen once, or nobody counted
  kAgain,      // two or three times, always followed so
  kAlways,     // more often, always followed so
  kMostly,     // followed so in more than 7 of 10 cases
  kSometimes,  // in more than 4 of 10
  kSeldom,
};

inline Evidence weigh(int64_t followed, int64_t contexts) {
  if (contexts <= 1) return kOnce;
  if (followed >= contexts) return contexts < 4 ? kAgain : kAlways;
  if (10 * followed > 7 * contexts) return kMostly;
  return 10 * followed > 4 * contexts ? kSometimes : kSeldom;
}

}  // namespace maglio

#endif  // MAGLIO_EVIDENCE_H_

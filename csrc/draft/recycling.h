// Recycling: which token followed which, as the model's own rows said last.
//
// Token Recycling (Luo et al., ACL 2025): verifying a draft computes a whole row of logits for
// every position, and all but the sampled token is thrown away. This table keeps it: for every
// token of the vocabulary, the kWidth best candidates of the latest row computed after that token.
// A token that was committed moves to the front of its predecessor's row. A draft is the chain of
// first candidates, from the last token of the stream.
//
// A second table, keyed by the last two tokens, answers first where it knows the pair. It keeps one
// successor, the best candidate of the latest row or the committed token, in a fixed number of
// slots: a pair that collides with another replaces it.
//
// Memory is allocated zeroed and holds ids plus one, so rows that were never written are never
// resident. Not thread-safe.
#ifndef MAGLIO_RECYCLING_H_
#define MAGLIO_RECYCLING_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace maglio {

class Recycling {
 public:
  static constexpr size_t kWidth = 8;
  static constexpr size_t kMaxVocab = size_t{1} << 24;
  static constexpr size_t kMaxPairSlots = size_t{1} << 24;

  // `pair_slots` is 0 for no second table, or a power of two. Throws std::invalid_argument when an
  // argument is out of range, std::bad_alloc when memory runs out.
  Recycling(size_t vocab, size_t pair_slots);

  // The stream goes on with `tokens`. Throws std::invalid_argument for an id outside the
  // vocabulary, changing nothing.
  void observe(const int32_t* tokens, size_t count);

  // Learns from `rows` rows of consecutive tokens: candidates[i * width ..], best first, may follow
  // tokens[i]. Where tokens[0] is the stream's last token, the stream also tells what came before
  // it. At most kWidth candidates are kept. Throws like observe().
  void observe_rows(const int32_t* tokens, const int32_t* candidates, size_t rows, size_t width);

  // The stream is another one from here on: what comes next does not follow what came last.
  void restart() { before_last_ = last_ = kNothing; }

  // Writes the chain after the stream's last token, at most `limit` tokens; returns their number.
  size_t draft(size_t limit, int32_t* out) const;

  // Writes the candidates that may follow `token`, best first, at most kWidth; returns their
  // number. Throws std::invalid_argument for an id outside the vocabulary.
  size_t topk_of(int32_t token, int32_t* out) const;

  size_t vocab() const { return vocab_; }
  size_t pair_slots() const { return pair_slots_; }
  size_t memory_bytes() const;

  // Verifies the tables in linear time; returns what is wrong, or an empty string.
  std::string check() const;

 private:
  struct Pair {
    int32_t first;
    int32_t second;
    uint32_t next;  // plus one; 0 in an empty slot
  };
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };

  static constexpr int32_t kNothing = -1;

  void require_tokens(const int32_t* tokens, size_t count) const;
  uint32_t* row(int32_t token) const { return rows_.get() + static_cast<size_t>(token) * kWidth; }
  Pair* slot(int32_t first, int32_t second) const;
  void remember_pair(int32_t first, int32_t second, int32_t next);
  void move_to_front(int32_t token, int32_t next);
  int32_t successor(int32_t first, int32_t second) const;

  size_t vocab_;
  size_t pair_slots_;
  std::unique_ptr<uint32_t[], Free> rows_;
  std::unique_ptr<Pair[], Free> pairs_;
  int32_t before_last_ = kNothing;
  int32_t last_ = kNothing;
};

}  // namespace maglio

#endif  // MAGLIO_RECYCLING_H_

// The candidates of one row: filters in any order and the draw, without sorting the vocabulary.
//
// Everything here is defined on the whole row, sorted by (logit descending, id ascending), with
// each token weighing exp((logit - best) / temperature); `best` is the largest logit among those
// left. Weights are integers, so masses are exact and the same whether a set was summed in order or
// not; that is what allows looking only at the best few tokens, at the next few when those do not
// suffice, and at everything in the worst case, with the result of the full sort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maglio {

class Shortlist {
 public:
  // Starts on a row without NaN and +inf whose largest logit `best` is above -inf, at
  // temperature 1. `maxima` are its block maxima; both must outlive the other calls.
  void start(const float* logits, size_t size, const std::vector<float>& maxima, float best);

  // From here on tokens weigh what they do at this temperature.
  void set_temperature(float inverse_temperature);

  // Each filter but top-k keeps at least `min_keep` tokens, or all if there are fewer. min_keep
  // >= 1.

  // Keeps the first `k` tokens; 0 keeps all.
  void keep_top_k(size_t k);
  // Keeps the shortest prefix that weighs at least `p` of what is left; 1 keeps all.
  void keep_top_p(double p, size_t min_keep);
  // Keeps tokens that weigh at least `p` times the most probable one; 0 keeps all.
  void keep_min_p(double p, size_t min_keep);
  // Keeps tokens at most `n` standard deviations of the logits left below the best; 0 keeps all.
  void keep_top_n_sigma(double n, size_t min_keep);
  // Keeps the tokens whose surprise is nearest the expected one, and that weigh at least `p` of
  // what is left together; 1 keeps all.
  void keep_typical(double p, size_t min_keep);
  // Drops all tokens of at least this probability but the last one.
  void drop_top_choices(double threshold, size_t min_keep);

  // The token at which the running weight first exceeds uniform53 * 2^-53 of the total.
  int32_t draw(uint64_t uniform53);

 private:
  struct Item {
    uint64_t key;
    uint64_t weight;
  };

  float logit_of(const Item& item) const;
  uint64_t weight_of(float logit) const;
  uint64_t row_mass() const;
  void gather(size_t count);
  bool extend();
  void gather_all();
  void close(size_t size);
  void close_with(size_t kept, size_t min_keep);
  void reweigh();
  void rebase();
  double deviation() const;
  size_t crossing(uint64_t target);

  const float* logits_ = nullptr;
  size_t size_ = 0;
  const std::vector<float>* maxima_ = nullptr;
  float best_ = 0.0f;
  float inverse_temperature_ = 1.0f;

  std::vector<Item> items_;  // every token whose logit reaches bound_, in no order
  uint64_t mass_ = 0;        // what items_ weigh together
  float bound_ = 0.0f;       // the smallest logit gathered so far
  size_t count_ = 0;         // how many items the last tier aimed at
  bool closed_ = false;      // a filter has cut items_: no token may be added
  std::vector<float> scratch_;
};

}  // namespace maglio

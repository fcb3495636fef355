// One sequence's keys and values, half precision, for every layer.
//
// Keys: [layer][kv head][tile of 16 positions][head_dim][16]. Values: [layer][kv head][position]
// [head_dim]. Forgetting positions is a change of length: what lies past it is never read before
// it is written again.
#pragma once

#include "engine/aligned.h"
#include "engine/model.h"

namespace maglio {

class KvCache {
 public:
  KvCache(const ModelSpec& spec, int n_ctx);

  static size_t bytes_needed(const ModelSpec& spec, int n_ctx);

  int n_ctx() const { return n_ctx_; }
  int length() const { return length_; }
  // Forgets positions from `length` on. Throws std::invalid_argument outside [0, length()].
  void truncate(int length);
  // Counts n positions that were written since.
  void extend(int n) { length_ += n; }

  CacheHead head(int layer, int kv_head) const;
  // Writes one position of a head; `half` holds head_dim values already rounded.
  void put_key(int layer, int kv_head, int position, const uint16_t* half);
  void put_value(int layer, int kv_head, int position, const uint16_t* half);

 private:
  size_t head_offset(int layer, int kv_head) const {
    return (static_cast<size_t>(layer) * n_kv_head_ + kv_head) * head_size_;
  }
  uint16_t* keys() const { return reinterpret_cast<uint16_t*>(const_cast<uint8_t*>(keys_.data())); }
  uint16_t* values() const {
    return reinterpret_cast<uint16_t*>(const_cast<uint8_t*>(values_.data()));
  }

  int n_kv_head_;
  int head_dim_;
  int n_ctx_;
  int length_ = 0;
  size_t head_size_;  // halves of a head: positions, rounded up to a block, times head_dim
  AlignedBuffer keys_;
  AlignedBuffer values_;
};

}  // namespace maglio

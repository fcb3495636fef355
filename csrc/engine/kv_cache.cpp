#include "engine/kv_cache.h"

#include <cstring>
#include <stdexcept>

namespace maglio {
namespace {

// Attention reads whole blocks of positions, whose tail is masked.
size_t padded_positions(int n_ctx) {
  return (static_cast<size_t>(n_ctx) + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock;
}

}  // namespace

KvCache::KvCache(const ModelSpec& spec, int n_ctx)
    : n_kv_head_(spec.n_kv_head),
      head_dim_(spec.head_dim),
      n_ctx_(n_ctx),
      head_size_(padded_positions(n_ctx) * static_cast<size_t>(spec.head_dim)),
      keys_(bytes_needed(spec, n_ctx) / 2, Pages::kSmall),
      values_(bytes_needed(spec, n_ctx) / 2, Pages::kSmall) {}

size_t KvCache::bytes_needed(const ModelSpec& spec, int n_ctx) {
  return 2 * sizeof(uint16_t) * padded_positions(n_ctx) * static_cast<size_t>(spec.head_dim) *
         static_cast<size_t>(spec.n_kv_head) * static_cast<size_t>(spec.n_layer);
}

void KvCache::truncate(int length) {
  if (length < 0 || length > length_) throw std::invalid_argument("no such cache length");
  length_ = length;
}

CacheHead KvCache::head(int layer, int kv_head) const {
  const size_t offset = head_offset(layer, kv_head);
  return {keys() + offset, values() + offset};
}

void KvCache::put_key(int layer, int kv_head, int position, const uint16_t* half) {
  uint16_t* tile = keys() + head_offset(layer, kv_head) +
                   static_cast<size_t>(position / kKeyTile) * kKeyTile * head_dim_;
  const int lane = position % kKeyTile;
  for (int d = 0; d < head_dim_; ++d) tile[d * kKeyTile + lane] = half[d];
}

void KvCache::put_value(int layer, int kv_head, int position, const uint16_t* half) {
  uint16_t* row =
      values() + head_offset(layer, kv_head) + static_cast<size_t>(position) * head_dim_;
  std::memcpy(row, half, sizeof(uint16_t) * static_cast<size_t>(head_dim_));
}

}  // namespace maglio

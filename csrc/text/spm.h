// SentencePiece-style tokenization: adjacent symbols merge by the score of the token they form.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace maglio {

// A scored vocabulary that encodes text the way llama.cpp's SPM tokenizer does
// (`llm_tokenizer_spm_session`): start from UTF-8 characters, merge the adjacent pair whose
// token has the highest score (the leftmost of equals) until no pair forms a token, and spell
// characters that are no token as bytes.
class SpmModel {
 public:
  // Token i is bytes [offsets[i], offsets[i + 1]) of `blob`; `byte_ids[b]` is the token for a
  // single byte. Throws std::invalid_argument if the parts do not fit together.
  SpmModel(std::string blob, std::vector<std::int64_t> offsets, std::vector<float> scores,
           std::array<std::int32_t, 256> byte_ids);
  SpmModel(const SpmModel&) = delete;
  SpmModel& operator=(const SpmModel&) = delete;

  // Token ids of `text` (any bytes, spaces already escaped). O(n log n) in its length.
  // Throws std::invalid_argument for a text of 2 GiB or more.
  std::vector<std::int32_t> encode(std::string_view text) const;

 private:
  void check() const;
  // The token spelled by `text`, or -1.
  std::int32_t find(std::string_view text) const;

  std::string blob_;
  std::vector<std::int64_t> offsets_;
  std::vector<float> scores_;
  std::array<std::int32_t, 256> byte_ids_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views into blob_
  std::size_t longest_ = 0;

  friend class SpmMerger;
};

}  // namespace maglio

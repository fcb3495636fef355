// The header parser on hundreds of thousands of damaged files, for runs under sanitizers.
#include "gguf/gguf.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "engine/loader.h"
#include "gguf_bytes.h"

namespace {

using namespace gguf_bytes;
using maglio::GgufError;

std::mt19937_64 rng(20260104);

size_t below(size_t n) { return rng() % n; }

Bytes sound_file() {
  return make_file({{"vector", {8}, TensorType::kF32, 0},
                    {"matrix", {32, 3}, TensorType::kQ4_0, 32},
                    {"large", {256, 2}, TensorType::kQ6_K, 96}},
                   96 + 420);
}

// Reads everything a file claims to hold; false when it is refused.
bool read_everything(const Bytes& bytes) {
  static const Scratch scratch;
  scratch.put(bytes);
  try {
    const std::shared_ptr<const GgufPart> part = scratch.open();
    for (const maglio::GgufValue& value : part->values()) {
      if (value.type == maglio::GgufType::kString) {
        CHECK(part->strings(value).size() == value.count);
      } else {
        const size_t size = maglio::gguf_type_size(value.type) * value.count;
        CHECK(value.offset + size <= part->header().size());
      }
    }
    const GgufFile file({part});
    for (const maglio::GgufTensor& tensor : file.tensors()) {
      CHECK(file.find_tensor(tensor.name) == &tensor);
      CHECK(tensor.offset + tensor.bytes <= bytes.size());
      try {
        const maglio::Matrix matrix = maglio::load_matrix(file, tensor.name, 1);
        std::vector<float> row(static_cast<size_t>(matrix.cols()));
        matrix.unpack_row(matrix.rows() - 1, row.data());
        CHECK(matrix.bytes() < 64 * bytes.size());
      } catch (const GgufError&) {
      }
    }
  } catch (const GgufError&) {
    return false;
  }
  return true;
}

void a_sound_file_is_read() {
  const Bytes bytes = sound_file();
  CHECK(read_everything(bytes));
  const std::shared_ptr<const GgufPart> part = Scratch(bytes).open();
  const GgufFile file({part});
  CHECK(part->values().size() == 5 && file.tensors().size() == 3);
  CHECK(part->strings(part->values().back())[2] == "three");
  CHECK(file.find_tensor("matrix")->bytes == 3 * 18);
  CHECK(file.find_tensor("absent") == nullptr);
}

void a_file_cut_anywhere_is_refused() {
  const Bytes whole = sound_file();
  for (size_t size = 0; size < whole.size(); ++size) {
    CHECK(!read_everything(Bytes(whole.begin(), whole.begin() + static_cast<long>(size))));
  }
}

void mutate(Bytes& bytes, size_t header) {
  static const uint64_t kNumbers[] = {
      0,          1,          0x7FFFFFFF, 0x80000000,         0xFFFFFFFF, 0x100000000,
      1ull << 61, 1ull << 62, 1ull << 63, 0xFFFFFFFFFFFFFFFF, 31,         255};
  const size_t at = below(std::min(header, bytes.size()));
  switch (below(5)) {
    case 0:
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1u << below(8)));
      break;
    case 1:
      bytes[at] = static_cast<uint8_t>(rng());
      break;
    case 2: {
      const uint64_t number = kNumbers[below(std::size(kNumbers))];
      std::memcpy(bytes.data() + at, &number, std::min<size_t>(8, bytes.size() - at));
      break;
    }
    case 3:
      bytes.insert(bytes.begin() + static_cast<long>(at), 1 + below(9),
                   static_cast<uint8_t>(rng()));
      break;
    default:
      bytes.erase(bytes.begin() + static_cast<long>(at),
                  bytes.begin() + static_cast<long>(std::min(bytes.size(), at + 1 + below(9))));
  }
}

void damaged_files_are_refused_or_read() {
  const Bytes sound = sound_file();
  const size_t header = sound.size() - 420;
  int refused = 0;
  constexpr int kTrials = 300000;
  for (int trial = 0; trial < kTrials; ++trial) {
    Bytes bytes = sound;
    for (size_t n = 1 + below(3); n > 0 && bytes.size() > 16; --n) mutate(bytes, header);
    if (!read_everything(bytes)) ++refused;
  }
  CHECK(refused > kTrials / 4 && refused < kTrials);
}

void shapes_that_are_no_matrix_are_refused() {
  const std::vector<std::vector<uint64_t>> shapes = {{16, 2, 1, 2}, {1u << 21}, {32, 1u << 21}};
  for (const std::vector<uint64_t>& shape : shapes) {
    size_t values = 1;
    for (uint64_t dimension : shape) values *= dimension;
    const Bytes bytes = make_file({{"t", shape, TensorType::kF16, 0}}, 2 * values);
    const GgufFile file = file_of(bytes);
    bool refused = false;
    try {
      maglio::load_matrix(file, "t", 2);
    } catch (const GgufError& error) {
      refused = std::string(error.what()).find("'t'") != std::string::npos;
    }
    CHECK(refused);
  }
}

void rows_of_floats_may_have_any_width() {
  for (uint64_t cols : {1u, 16u, 31u, 100u}) {
    const size_t bytes_of_it = static_cast<size_t>(2 * 3 * cols);
    const Bytes bytes = make_file({{"t", {cols, 3, 1, 1}, TensorType::kF16, 0}}, bytes_of_it);
    const GgufFile file = file_of(bytes);
    const maglio::Matrix matrix = maglio::load_matrix(file, "t", 2);
    CHECK(matrix.rows() == 3 && matrix.cols() == static_cast<int>(cols));
    std::vector<float> row(cols);
    matrix.unpack_row(2, row.data());
  }
}

// More than is read at first, so that parsing begins anew.
void a_long_header_is_read_to_its_end() {
  for (size_t strings : {100000u, 500000u}) {
    Bytes bytes = {'G', 'G', 'U', 'F'};
    put<uint32_t>(bytes, 3);
    put<uint64_t>(bytes, 0);
    put<uint64_t>(bytes, 1);
    put_key(bytes, "many", maglio::GgufType::kArray);
    put(bytes, static_cast<uint32_t>(maglio::GgufType::kString));
    put<uint64_t>(bytes, strings);
    for (size_t i = 0; i < strings; ++i) put_string(bytes, std::to_string(i));
    const std::shared_ptr<const GgufPart> part = Scratch(bytes).open();
    CHECK(part->strings(part->values()[0]).back() == std::to_string(strings - 1));
    CHECK(part->header().size() == bytes.size());
    bytes.pop_back();
    CHECK(!read_everything(bytes));
  }
}

// Sparse, as a hostile file can be: it holds what it claims.
void a_header_without_an_end_is_refused() {
  Bytes bytes = {'G', 'G', 'U', 'F'};
  put<uint32_t>(bytes, 3);
  put<uint64_t>(bytes, 0);
  put<uint64_t>(bytes, 1);
  put_key(bytes, "large", maglio::GgufType::kString);
  put<uint64_t>(bytes, uint64_t{1} << 40);
  const Scratch scratch(bytes);
  scratch.cut(size_t{2} << 40);
  std::string message;
  try {
    scratch.open();
  } catch (const GgufError& error) {
    message = error.what();
  }
  CHECK(message.find("256 MiB") != std::string::npos);
}

void a_file_cut_short_after_it_was_opened_is_refused() {
  const Bytes bytes = sound_file();
  for (const bool as_vector : {false, true}) {
    const Scratch scratch(bytes);
    const GgufFile file({scratch.open()});
    scratch.cut(bytes.size() - 420 - 96);
    std::string message;
    try {
      if (as_vector) {
        maglio::load_vector(file, "vector");
      } else {
        maglio::load_matrix(file, "matrix", 2);
      }
    } catch (const GgufError& error) {
      message = error.what();
    }
    CHECK(message.find("cut short") != std::string::npos);
  }
}

void parts_must_not_share_a_tensor() {
  const auto part_with = [](const char* name) {
    return Scratch(make_file({{name, {8}, TensorType::kF32, 0}}, 32)).open();
  };
  const GgufFile file({part_with("a"), part_with("b")});
  CHECK(file.tensors().size() == 2 && file.find_tensor("b")->part == 1);
  CHECK(maglio::load_vector(file, "b").size() == 8);
  std::string message;
  try {
    const GgufFile twice({part_with("a"), part_with("b"), part_with("a")});
  } catch (const GgufError& error) {
    message = error.what();
  }
  CHECK(message.find("'a' is in part 1 and in part 3") != std::string::npos);
}

void the_longest_rows_are_packed_by_several_threads() {
  const Bytes bytes = make_file({{"t", {1u << 20, 2}, TensorType::kF32, 0}}, 8u << 20);
  const GgufFile file = file_of(bytes);
  const maglio::Matrix matrix = maglio::load_matrix(file, "t", 3);
  CHECK(matrix.rows() == 2 && matrix.cols() == 1 << 20);
}

}  // namespace

int main() {
  a_sound_file_is_read();
  a_file_cut_anywhere_is_refused();
  damaged_files_are_refused_or_read();
  shapes_that_are_no_matrix_are_refused();
  rows_of_floats_may_have_any_width();
  a_long_header_is_read_to_its_end();
  a_header_without_an_end_is_refused();
  a_file_cut_short_after_it_was_opened_is_refused();
  parts_must_not_share_a_tensor();
  the_longest_rows_are_packed_by_several_threads();
  std::puts("gguf: ok");
  return 0;
}

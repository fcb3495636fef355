// Weights kept in a file, and every damage of its header, for runs under sanitizers.
#include "engine/kept_weights.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "gguf_bytes.h"

namespace {

using namespace gguf_bytes;
using maglio::KeptWeightsError;
using maglio::Matrix;
using maglio::Packing;

std::mt19937 rng(20260106);

constexpr size_t kHeader = 4096;

// A file of two matrices, and places for them without memory.
struct Weights {
  GgufFile file;
  Matrix first, second;
  std::vector<Packing> packings;

  explicit Weights(uint8_t filling = 1)
      : file(file_of(bytes(filling))),
        first(TensorType::kQ4_0, 40, 64, nullptr, nullptr),
        second(TensorType::kF16, 16, 8, nullptr, nullptr) {
    packings = {{&first, file.find_tensor("first"), 0, {}},
                {&second, file.find_tensor("second"), 0, {}}};
  }

  void read() {
    first = Matrix(TensorType::kQ4_0, 40, 64);
    second = Matrix(TensorType::kF16, 16, 8);
    maglio::pack_all(file, packings, 2, {});
  }
  uint64_t key() const { return maglio::kept_key(file, packings); }

 private:
  static Bytes bytes(uint8_t filling) {
    Bytes out = make_file(
        {{"first", {64, 40}, TensorType::kQ4_0, 0}, {"second", {8, 16}, TensorType::kF16, 1440}},
        1440 + 256);
    std::fill(out.end() - (1440 + 256), out.end(), filling);
    return out;
  }
};

bool alike(const Matrix& a, const Matrix& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

size_t size_of(const Scratch& file) {
  struct stat status{};
  CHECK(::fstat(file.descriptor(), &status) == 0);
  return static_cast<size_t>(status.st_size);
}

bool maps(Weights& weights, uint64_t key, const Scratch& file) {
  try {
    maglio::map_kept(weights.packings, key, file.descriptor());
    return true;
  } catch (const KeptWeightsError&) {
    CHECK(weights.first.data() == nullptr && weights.second.data() == nullptr);
    return false;
  }
}

void kept_weights_are_mapped_as_they_were() {
  Weights read, mapped;
  read.read();
  const Scratch kept;
  uint64_t done = 0, all = 0;
  maglio::write_kept(read.packings, read.key(), kept.descriptor(), [&](uint64_t d, uint64_t a) {
    CHECK(d > done && d <= a);
    done = d;
    all = a;
  });
  CHECK(done == all && all == size_of(kept) && all % 4096 == 0);
  CHECK(maps(mapped, read.key(), kept));
  CHECK(alike(read.first, mapped.first) && alike(read.second, mapped.second));
}

void another_model_has_another_key() {
  const Weights weights;
  std::vector<Packing> packings = weights.packings;
  CHECK(maglio::kept_key(weights.file, packings) == weights.key());
  packings[0].first_row = 1;
  CHECK(maglio::kept_key(weights.file, packings) != weights.key());
  packings = weights.packings;
  packings[1].order = {1, 0};
  CHECK(maglio::kept_key(weights.file, packings) != weights.key());
  packings.pop_back();
  CHECK(maglio::kept_key(weights.file, packings) != weights.key());
}

void a_damaged_header_is_refused() {
  Weights read;
  read.read();
  const uint64_t key = read.key();
  const Scratch kept;
  maglio::write_kept(read.packings, key, kept.descriptor(), {});
  const size_t size = size_of(kept);
  for (size_t at = 0; at < 32; ++at) {
    const uint8_t flip = static_cast<uint8_t>(1 + rng() % 255);
    uint8_t byte;
    CHECK(::pread(kept.descriptor(), &byte, 1, static_cast<off_t>(at)) == 1);
    const uint8_t damaged = static_cast<uint8_t>(byte ^ flip);
    CHECK(::pwrite(kept.descriptor(), &damaged, 1, static_cast<off_t>(at)) == 1);
    Weights mapped;
    CHECK(!maps(mapped, key, kept));
    CHECK(::pwrite(kept.descriptor(), &byte, 1, static_cast<off_t>(at)) == 1);
  }
  for (const size_t other : {size_t{0}, size_t{31}, kHeader, size - 1, size + 1}) {
    kept.cut(other);
    Weights mapped;
    CHECK(!maps(mapped, key, kept));
  }
}

void what_progress_throws_ends_writing() {
  Weights read;
  read.read();
  const Scratch kept;
  bool thrown = false;
  try {
    maglio::write_kept(read.packings, 1, kept.descriptor(), [](uint64_t, uint64_t) { throw 1; });
  } catch (int) {
    thrown = true;
  }
  CHECK(thrown);
}

}  // namespace

int main() {
  kept_weights_are_mapped_as_they_were();
  another_model_has_another_key();
  a_damaged_header_is_refused();
  what_progress_throws_ends_writing();
  std::puts("kept weights: ok");
  return 0;
}

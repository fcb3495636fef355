#include "engine/packing.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

#include "engine/thread_pool.h"

namespace maglio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSliceBytes = 1 << 20;
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

size_t row_bytes(const Matrix& matrix) {
  const BlockGeometry block = block_geometry(static_cast<uint32_t>(matrix.type()));
  return static_cast<size_t>(matrix.cols()) / block.values * block.bytes;
}

// Some tiles of a matrix, and the rows of its tensor that they need, counted from first_row on.
struct Slice {
  const Packing* packing;
  int first_tile, last_tile;
  int first_row, last_row;

  uint64_t offset() const {
    return row_bytes(*packing->matrix) * static_cast<uint64_t>(packing->first_row + first_row);
  }
  size_t bytes() const {
    return row_bytes(*packing->matrix) * static_cast<size_t>(last_row - first_row);
  }
};

Slice slice_of(const Packing& packing, int first_tile, int last_tile) {
  const int first = first_tile * kTileRows;
  const int last = std::min(last_tile * kTileRows, packing.matrix->rows());
  Slice slice{&packing, first_tile, last_tile, first, last};
  if (packing.order.empty()) return slice;
  slice.first_row = slice.last_row = 0;
  for (int row = first; row < last; ++row) {
    const int from = packing.order[static_cast<size_t>(row)];
    if (from < 0) continue;
    const bool none = slice.first_row == slice.last_row;
    slice.first_row = none ? from : std::min(slice.first_row, from);
    slice.last_row = none ? from + 1 : std::max(slice.last_row, from + 1);
  }
  return slice;
}

// All slices, in the order of the file.
std::vector<Slice> cut(const std::vector<Packing>& packings) {
  std::vector<Slice> slices;
  for (const Packing& packing : packings) {
    const Matrix& matrix = *packing.matrix;
    const size_t tile = row_bytes(matrix) * kTileRows;
    const size_t unit = tile * static_cast<size_t>(packing.together);
    const int tiles = packing.together * static_cast<int>(std::max<size_t>(1, kSliceBytes / unit));
    for (int first = 0; first < matrix.tiles(); first += tiles) {
      slices.push_back(slice_of(packing, first, std::min(first + tiles, matrix.tiles())));
    }
  }
  const auto place = [](const Slice& slice) {
    const GgufTensor& tensor = *slice.packing->tensor;
    return std::make_pair(tensor.part, tensor.offset + slice.offset());
  };
  std::stable_sort(slices.begin(), slices.end(),
                   [&](const Slice& a, const Slice& b) { return place(a) < place(b); });
  return slices;
}

class Work {
 public:
  Work(const GgufFile& file, const std::vector<Slice>& slices, const Progress& progress)
      : file_(file), slices_(slices), progress_(progress) {
    for (const Slice& slice : slices) all_ += slice.bytes();
  }

  // Packs slices until none is left, or something failed.
  void run(int member) {
    try {
      std::vector<uint8_t> buffer;
      for (size_t i; !failed_ && (i = next_.fetch_add(1)) < slices_.size();) {
        pack(slices_[i], buffer);
        done_ += slices_[i].bytes();
        if (member == 0) report();
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  void finish() const {
    if (failure_) std::rethrow_exception(failure_);
    if (progress_) progress_(all_, all_);
  }

 private:
  void pack(const Slice& slice, std::vector<uint8_t>& buffer) const {
    const Packing& packing = *slice.packing;
    buffer.resize(std::max(buffer.size(), slice.bytes()));
    file_.read(*packing.tensor, slice.offset(), buffer.data(), slice.bytes());
    packing.matrix->pack_tiles(buffer.data(),
                               packing.order.empty() ? nullptr : packing.order.data(),
                               slice.first_tile, slice.last_tile, slice.first_row);
  }

  void report() {
    if (!progress_ || Clock::now() - reported_ < kBetweenReports) return;
    progress_(done_, all_);
    reported_ = Clock::now();
  }

  const GgufFile& file_;
  const std::vector<Slice>& slices_;
  const Progress& progress_;
  uint64_t all_ = 0;
  Clock::time_point reported_ = Clock::now();
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void pack_all(const GgufFile& file, const std::vector<Packing>& packings, int threads,
              const Progress& progress) {
  const std::vector<Slice> slices = cut(packings);
  Work work(file, slices, progress);
  // Few slices are packed sooner than threads start.
  const size_t useful = std::max<size_t>(1, slices.size() / 4);
  run_shares(static_cast<int>(std::min<size_t>(useful, static_cast<size_t>(threads))),
             [&](int member) { work.run(member); });
  work.finish();
}

}  // namespace maglio

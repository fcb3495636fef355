// What a sequence leaves in layers whose state is rewritten at every position, and how it goes
// back.
//
// A state cannot be cut shorter like keys and values. So a cache holds the state at a position, its
// floor, and of each row from there on what it fed into the recurrences. Any length from the floor
// on is reached by running these rows again, which costs the recurrence and nothing else, and is
// put off until the next forward. The state after the last row is there too, so that nothing runs
// twice where nothing was taken back.
//
// After a forward the floor lies before the rows whose logits were wanted: those of a draft can all
// be taken back, and a prompt keeps one. States and row inputs are pages, which forks share; a page
// that others use is never written to, the next state goes to another one.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/pages.h"
#include "engine/spec.h"

namespace maglio {

// Where each recurrent layer lies within the pages of states and of row inputs, in floats.
class RecurrentLayout {
 public:
  explicit RecurrentLayout(const ModelSpec& spec);

  bool empty() const { return row_size_ == 0; }
  size_t state_bytes() const { return state_size_ * sizeof(float); }
  size_t row_bytes() const { return row_size_ * sizeof(float); }
  // How many rows before a state are needed to go on from it.
  int tail() const { return tail_; }
  size_t state_at(int layer) const { return states_[static_cast<size_t>(layer)]; }
  size_t row_at(int layer) const { return rows_[static_cast<size_t>(layer)]; }
  size_t input_width(int layer) const { return widths_[static_cast<size_t>(layer)]; }

 private:
  std::vector<size_t> states_, rows_, widths_;  // by layer
  size_t state_size_ = 0, row_size_ = 0;
  int tail_ = 0;
};

// Of one engine, shared by its caches.
struct RecurrentMemory {
  RecurrentMemory(const ModelSpec& spec, const std::shared_ptr<Account>& account);

  const RecurrentLayout layout;
  PagePool states, rows;
};

// What one forward does with the states of a cache. Rows that are computed again come first.
struct Advance {
  int base = 0;                 // positions held before
  int again = 0;                // rows before `base` that are computed again
  int to_floor = 0;             // rows up to the new floor, those computed again included
  const float* from = nullptr;  // the state to begin with; null for zeros
  float* floor = nullptr;       // takes the state at the new floor, where to_floor > 0
  float* end = nullptr;         // takes the state after the last row
  int first_input = 0;
  std::vector<const float*> inputs;  // of positions from `first_input` up to `base`
  int first_kept = 0;
  std::vector<float*> kept;  // take inputs of positions from `first_kept` on

  int rows(int n) const { return again + n; }
  // Takes the state after the i-th row.
  float* state_after(int i) const { return i < to_floor ? floor : end; }
  // Inputs of a position before `base`; null before the first one.
  const float* input(int position) const {
    return position < 0 ? nullptr : inputs[static_cast<size_t>(position - first_input)];
  }
  // Takes the inputs of a position from `base` on; null for those that nobody will need.
  float* input_kept(int position) const {
    return position < first_kept ? nullptr : kept[static_cast<size_t>(position - first_kept)];
  }
};

// What the states of a cache can be made of again.
struct StateParts {
  int floor = 0;
  PageRef state;              // at the floor; none where it is zeros, or there are only rows
  std::vector<PageRef> rows;  // inputs from what the floor needs up to the last row
};

// The states of one cache, which holds its lock.
class States {
 public:
  explicit States(std::shared_ptr<RecurrentMemory> memory) : memory_(std::move(memory)) {}
  States(std::shared_ptr<RecurrentMemory> memory, StateParts parts);

  int floor() const { return floor_; }
  StateParts parts() const { return {floor_, start_, rows_}; }
  // Adds all of its pages, shared ones too.
  void list(PageSizes& pages) const;

  // Goes from `held` positions to `length`, or, below the floor, to the nearest kept place at or
  // below; returns where it is.
  int truncate(int held, int length);
  // Those of the first `length` positions, which is at least floor().
  States fork(int held, int length) const;
  // Makes the floor a place that truncate() can go back to later. The last few are kept.
  void keep();

  // --- For a forward.

  struct Need {
    size_t states = 0, rows = 0;
  };
  // Readies n more rows after `held` positions, the last n_logits of which may be taken back one by
  // one, and returns the pages that they take.
  Need prepare(int held, int n, int n_logits);
  // Takes those pages from the ends of the loans. Cannot fail.
  void adopt(std::vector<PageRef>& states, std::vector<PageRef>& rows) noexcept;
  const Advance& advance() const { return advance_; }
  // The rows were computed.
  void settle() noexcept;

 private:
  static constexpr size_t kPlaces = 4;

  // A floor of the past, and the rows before it that it needs.
  struct Place {
    int position;
    PageRef state;
    std::vector<PageRef> tail;
  };

  int first_needed(int floor) const;
  bool has_state() const { return memory_->layout.state_bytes() > 0; }

  std::shared_ptr<RecurrentMemory> memory_;
  int floor_ = 0;
  bool end_holds_ = false;     // whether end_ is the state after the last row
  PageRef start_, end_;        // states; none of zeros, and where there is none yet
  int first_row_ = 0;          // position of the first of rows_: first_needed(floor_)
  std::vector<PageRef> rows_;  // inputs up to the last row
  std::vector<Place> places_;  // by position
  Advance advance_;
  size_t n_fresh_ = 0;          // rows of a forward whose inputs stay, and
  std::vector<PageRef> fresh_;  // these
  PageRef read_;                // holds what a forward reads and others may let go of
};

}  // namespace maglio

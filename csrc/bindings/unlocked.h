// Work without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include "engine/fork.h"

namespace bindings {

// Lets other Python threads run meanwhile. One of them may fork: it waits for the end of this, so
// that the child finds every lock free and everything whole. Nothing in it may need the GIL.
class Unlocked {
 public:
  Unlocked() = default;

 private:
  nanobind::gil_scoped_release release_;  // taken back last
  maglio::HoldsForks hold_;
};

}  // namespace bindings

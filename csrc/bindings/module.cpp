#include <nanobind/nanobind.h>

#include "bindings.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  m.doc() = "Maglio's native core: index structures, sampling, and the CPU engine.";
  maglio::bind_text(m);
}

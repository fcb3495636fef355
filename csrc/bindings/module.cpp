#include "bindings.h"

NB_MODULE(_core, m) {
  // At exit threads may still run that hold an engine: daemons of a program that ends, of a test
  // that failed. CPython never frees what they hold, and nanobind would call it leaked.
  nanobind::set_leak_warnings(false);
  m.doc() = "Maglio's native core: index structures, sampling, and the CPU engine.";
  bind_automaton(m);
  bind_gguf(m);
  bind_model(m);
  bind_cache(m);
  bind_engine(m);
  bind_recycling(m);
  bind_text(m);
  bind_sampler(m);
}

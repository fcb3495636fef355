#include "bindings.h"

NB_MODULE(_core, m) {
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

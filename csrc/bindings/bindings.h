// One function per noun of the core; each adds its classes to the module.
#pragma once

#include <nanobind/nanobind.h>

void bind_automaton(nanobind::module_& m);
void bind_cache(nanobind::module_& m);
void bind_engine(nanobind::module_& m);
void bind_gguf(nanobind::module_& m);
void bind_model(nanobind::module_& m);
void bind_recycling(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_sampler(nanobind::module_& m);

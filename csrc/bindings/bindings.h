// One function per noun; each adds its classes to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace maglio {

void bind_text(nanobind::module_& m);

}  // namespace maglio

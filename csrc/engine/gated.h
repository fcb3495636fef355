// The gated feed-forward sub-layer.
#pragma once

#include "engine/pass.h"

namespace maglio {

// From embd_in to `projected`.
void run_gated(Pass& pass, int member, int layer_index);

}  // namespace maglio

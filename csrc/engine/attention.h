// The attention sub-layer.
#pragma once

#include "engine/pass.h"

namespace maglio {

// From embd_in to `projected`, leaving the rows' keys and values in their caches.
void run_attention(Pass& pass, int member, int layer_index);

}  // namespace maglio

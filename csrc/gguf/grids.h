// The grids of the IQ2 and IQ3 formats of ggml: which values a code chooses.
//
// An entry has 8 values (of IQ2, in 2 bits each) or 4 (of IQ3, in 3 bits each), the first one
// lowest. They are indices into the magnitudes of the format (code_table.h).
#pragma once

#include <cstdint>

namespace maglio {

extern const uint16_t kGrid2Xxs[256];
extern const uint16_t kGrid2Xs[512];
extern const uint16_t kGrid2S[1024];
extern const uint16_t kGrid3Xxs[256];
extern const uint16_t kGrid3S[512];

}  // namespace maglio

// What this processor can do and the system lets programs use.
#pragma once

namespace maglio {

bool has_avx512_vnni();  // and the parts of AVX-512 that go with it
bool has_avx_vnni();     // and what has_avx2() says
bool has_avx2();         // and FMA
bool has_arm_dot();      // Armv8.2's dot products of bytes

}  // namespace maglio

"""Write csrc/gguf/grids.cpp: the grids of the IQ2 and IQ3 formats, from the ``gguf`` package.

    python scripts/make_grids.py > csrc/gguf/grids.cpp

A grid is part of its format: the values that a code stands for were chosen by the authors of ggml.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gguf import quants

GRIDS = {
    "kGrid2Xxs": (quants.IQ2_XXS, 2),
    "kGrid2Xs": (quants.IQ2_XS, 2),
    "kGrid2S": (quants.IQ2_S, 2),
    "kGrid3Xxs": (quants.IQ3_XXS, 3),
    "kGrid3S": (quants.IQ3_S, 3),
}


def entries(grid: type, bits: int) -> list[int]:
    """Return one number per entry: the indices of its values, the first one lowest."""
    grid.init_grid()
    size = {value: index for index, value in enumerate(grid.grid_map)}
    rows = np.asarray(grid.grid).reshape(grid.grid_shape)
    return [sum(size[int(v)] << (bits * i) for i, v in enumerate(row)) for row in rows]


def lines(numbers: list[int]) -> Iterator[str]:
    for start in range(0, len(numbers), 12):
        yield "    " + ", ".join(f"0x{n:04x}" for n in numbers[start : start + 12]) + ","


def main() -> None:
    print("// Made by scripts/make_grids.py.")
    print('#include "gguf/grids.h"\n\nnamespace maglio {\n\n// clang-format off')
    for name, (grid, bits) in GRIDS.items():
        numbers = entries(grid, bits)
        print(f"const uint16_t {name}[{len(numbers)}] = {{")
        print("\n".join(lines(numbers)))
        print("};")
    print("// clang-format on\n\n}  // namespace maglio")


if __name__ == "__main__":
    main()

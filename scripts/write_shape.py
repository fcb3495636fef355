"""Write a model of random weights in the shape of a released one, to measure speed with.

    python scripts/write_shape.py NAME FORMAT FILE

FORMAT is a weight format, such as Q4_K, or Q4_K_M for llama.cpp's mixture of that name. Mixtures
of experts have fewer layers than the released ones, so that they fit in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.models import QWEN3_06B, QWEN35_08B, Family, Shape, write_model

SHAPES: dict[str, tuple[Family, Shape]] = {
    "qwen3-0.6b": ("qwen3", QWEN3_06B),
    "qwen3-1.7b": ("qwen3", Shape(28, 2048, 16, 8, 128, 6144, 151936, 40960, 0, True)),
    "qwen3-4b": ("qwen3", Shape(36, 2560, 32, 8, 128, 9728, 151936, 40960, 0, True)),
    "llama-3.1-8b": ("llama", Shape(32, 4096, 32, 8, 128, 14336, 128256, 131072, 0, False)),
    "qwen3-30b-a3b": (
        "qwen3moe",
        Shape(8, 2048, 32, 4, 128, 768, 151936, 40960, 0, False, 128, 8),
    ),
    "gpt-oss": ("gpt-oss", Shape(6, 2880, 64, 8, 64, 2880, 201088, 131072, 128, False, 32, 4)),
    "qwen35-0.8b": ("qwen35", QWEN35_08B),
}


def mixture(shape: Shape, name: str) -> str:
    """llama.cpp's Q4_K_M: half of the value and down projections, and the output, in Q6_K."""
    if name.startswith(("output.", "token_embd")):
        return "Q6_K"
    if "attn_v" in name or "ffn_down" in name:
        layer, n = int(name.split(".")[1]), shape.n_layer
        if layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2:
            return "Q6_K"
    return "Q4_K"


def main() -> None:
    name, fmt, path = sys.argv[1:]
    family, shape = SHAPES[name]
    chosen = (lambda tensor: mixture(shape, tensor)) if fmt == "Q4_K_M" else fmt
    print(f"{path}: {write_model(path, family, shape, chosen)}")


if __name__ == "__main__":
    main()

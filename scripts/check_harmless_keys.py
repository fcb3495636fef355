"""Show that llama.cpp's logits do not change with the keys of ``tests/support/keys.py``.

Key by key and family by family, on tiny files. Needs llama-cpp-python and gguf (dependency group
``oracle``). Run from the repository root: ``python scripts/check_harmless_keys.py``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from llama_oracle import LlamaOracle

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from maglio.gguf import ModelFile  # noqa: E402
from support.gguf_bytes import RawGguf  # noqa: E402
from support.keys import harmless_keys  # noqa: E402
from support.models import FAMILIES, tiny_shape, write_model  # noqa: E402

TOKENS = np.random.default_rng(1).integers(0, 300, 60).tolist()  # past gemma3's window


def logits(raw: RawGguf, path: Path) -> np.ndarray:
    path.write_bytes(raw.to_bytes())
    with LlamaOracle(path, n_ctx=64) as oracle:
        return oracle.forward(TOKENS)


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "model.gguf"
    changed = 0
    for family in FAMILIES:
        write_model(path, family, tiny_shape(family, "F32"), "F32", 11)
        file = ModelFile(path)
        plain = RawGguf.read(path)
        expected = logits(plain, path)
        for key, value in harmless_keys(file).items():
            raw = RawGguf(list(plain.values), plain.tensors)
            raw.set(f"{family}.{key}", value)
            same = np.array_equal(logits(raw, path), expected)
            changed += not same
            print(f"{family:8} {key:40} {'same' if same else 'OTHER LOGITS'}")
    sys.exit(changed)


if __name__ == "__main__":
    main()

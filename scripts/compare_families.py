"""Compare tiny files of every family with llama.cpp, and both with the float64 reference.

Prints, for each family and format, the mean KL divergence and the top-1 agreement of ours with
llama.cpp, ours with the reference, and llama.cpp with the reference. llama.cpp rounds too, and
elsewhere, so the last two say which of the two the first one is about.

Needs llama-cpp-python and gguf (dependency group ``oracle``). Run from the repository root:
``python scripts/compare_families.py``, with names of families for those alone.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from llama_oracle import LlamaOracle

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from maglio.engine.native import NativeEngine  # noqa: E402
from maglio.engine.session import Session  # noqa: E402
from maglio.gguf import ModelFile  # noqa: E402
from support.family_files import FAMILIES, forms  # noqa: E402
from support.goldens import log_softmax  # noqa: E402
from support.models import tiny_shape, write_model  # noqa: E402
from support.reference import Reference  # noqa: E402

FORMATS = ("F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K")
TOKENS = np.random.default_rng(1).integers(0, 300, 250).tolist()

Rows = npt.NDArray[np.float32]


def agreement(expected: Rows, rows: Rows) -> str:
    """Return mean KL and top-1 agreement of rows of log-probabilities."""
    distance = (np.exp(expected) * (expected - rows)).sum(axis=1).mean()
    same = (expected.argmax(axis=1) == rows.argmax(axis=1)).mean()
    return f"{distance:.1e} {100 * same:5.1f}%"


def compare(path: Path) -> list[str]:
    """Return how ours and llama.cpp agree, ours and the reference, and llama.cpp and that."""
    with LlamaOracle(path, n_ctx=256) as oracle:
        theirs = log_softmax(oracle.forward(TOKENS))
    session = Session(NativeEngine(ModelFile(path)))
    halves = [session.forward(half) for half in (TOKENS[:125], TOKENS[125:])]
    ours = log_softmax(np.concatenate(halves))
    exact = log_softmax(Reference(path).logits(TOKENS))
    return [agreement(a, b) for a, b in [(theirs, ours), (exact, ours), (exact, theirs)]]


def main() -> None:
    print("family          format  ours, llama.cpp   ours, reference   llama.cpp, reference")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for family in sys.argv[1:] or FAMILIES:
            for fmt in FORMATS:
                for form, shape in forms(family, tiny_shape(family, fmt)).items():
                    write_model(path, family, shape, fmt, 11)
                    print(f"{form:15} {fmt:6}", *compare(path), sep="  ")


if __name__ == "__main__":
    main()

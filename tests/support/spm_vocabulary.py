"""A tiny SentencePiece vocabulary: special tokens, all bytes, and a few scored tokens."""

import numpy as np

_SPECIAL = {"<unk>": 2, "<s>": 3, "</s>": 3, "[user]": 4}
_WORDS = ["▁", "a", "b", "c", "bc", "ab", "▁a", "▁ab"]  # best score first

SPM: dict[str, object] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": [*_SPECIAL, *(f"<0x{b:02X}>" for b in range(256)), *_WORDS],
    "tokenizer.ggml.scores": np.array([0] * 260 + [-i for i, _ in enumerate(_WORDS)], np.float32),
    "tokenizer.ggml.token_type": np.array([*_SPECIAL.values(), *[6] * 256, *[1] * len(_WORDS)]),
}
"""The metadata, with llama.cpp's defaults for all that it does not set."""

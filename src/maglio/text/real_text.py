"""Real text that is always there: source code of this package, and the English that explains it.

Boundary: texts to token ids. What is tried on them is said elsewhere.
"""

from __future__ import annotations

from importlib import resources

from maglio.errors import InvalidArgumentError
from maglio.text.tokenizer import Tokenizer

_FILES = ("model.py", "prefix_cache.py", "references.py", "files.py")
MOST_STREAMS = len(_FILES)
_CHARACTERS_PER_TOKEN = 16


def real_streams(
    tokenizer: Tokenizer, n_streams: int, n_tokens: int, n_vocab: int
) -> list[list[int]]:
    """Different real texts as token ids, shorter ones repeated.

    Args:
        tokenizer: the model's. Without a vocabulary, and where it has no id for any of the text,
            the ids are spread over the vocabulary instead.
        n_streams: how many, at most :data:`MOST_STREAMS`.
        n_tokens: ids of each.
        n_vocab: ids that the model knows.
    """
    return [
        _repeated(_ids(tokenizer, name, n_tokens, n_vocab), n_tokens) for name in _FILES[:n_streams]
    ]


def _ids(tokenizer: Tokenizer, name: str, n_tokens: int, n_vocab: int) -> list[int]:
    text = resources.files("maglio").joinpath(name).read_text(encoding="utf-8")
    try:
        ids = tokenizer.encode(text[: n_tokens * _CHARACTERS_PER_TOKEN])
    except InvalidArgumentError:  # there is no vocabulary
        ids = []
    known = [token for token in ids if token < n_vocab]
    return known or [(len(name) * 31 + index * 7919) % n_vocab for index in range(n_tokens)]


def _repeated(ids: list[int], n: int) -> list[int]:
    return (ids * (1 + n // len(ids)))[:n]

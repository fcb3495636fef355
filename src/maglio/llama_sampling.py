"""Sampling as llama.cpp spells it: names and letters of steps, and texts that break repetitions.

Boundary: from words to values of :class:`~maglio.decode.SamplingParams`; parses no option and no
body.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from maglio.decode.order import ORDERS
from maglio.errors import InvalidArgumentError
from maglio.text import Tokenizer

SAME = (
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "ignore_eos",
)
"""Fields of :class:`~maglio.decode.SamplingParams` that mean the same to llama.cpp by that name."""
RANDOM_SEED = -1
"""The seed that stands for one that is drawn."""

_SPELLED = {
    "temp": "temperature",
    "typ_p": "typical_p",
    "typ": "typical_p",
    "typical": "typical_p",
    "nucleus": "top_p",
    "top_nsigma": "top_n_sigma",
}
_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typical_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
}
_MAX_TAIL = 20  # tokens of a text after the one that it begins in
Breaker = int | tuple[int, ...]
"""A token, or a sequence of them."""


def order_of_names(names: Iterable[str]) -> str | tuple[str, ...]:
    """An order of sampling: its name alone, or steps as llama.cpp spells them."""
    names = list(names)
    if len(names) == 1 and names[0] in ORDERS:
        return names[0]
    steps = [name.strip().lower().replace("-", "_") for name in names]
    return tuple(_SPELLED.get(step, step) for step in steps)


def order_of(words: Iterable[str] | str) -> str | tuple[str, ...]:
    """An order of sampling, however it is spelled: names, names with semicolons, or letters."""
    if not isinstance(words, str):
        return order_of_names(words)
    return (
        order_of_letters(words)
        if set(words) <= _LETTERS.keys()
        else order_of_names(words.split(";"))
    )


def order_of_letters(letters: str) -> tuple[str, ...]:
    """An order of sampling in llama.cpp's letters, such as ``edskypmxt``.

    Raises:
        InvalidArgumentError: a letter stands for no step.
    """
    for letter in letters:
        if letter not in _LETTERS:
            raise InvalidArgumentError(
                f"the order of sampling has the letter {letter!r}, must be of {''.join(_LETTERS)}"
            )
    return tuple(_LETTERS[letter] for letter in letters)


def default_breakers(tokenizer: Tokenizer) -> tuple[Breaker, ...]:
    """What breaks repetitions where nothing else is named, as in llama.cpp."""
    return breakers([b"\n", b":", b'"', b"*"], tokenizer)


def breakers(texts: Iterable[bytes], tokenizer: Tokenizer) -> tuple[Breaker, ...]:
    """The tokens with one of ``texts`` in them, and sequences that begin one in a token's end.

    The rest of the text is encoded as it is alone, as llama.cpp does it.

    Raises:
        InvalidArgumentError: a text is empty, or no token has any of it.
    """
    found: set[Breaker] = set()
    wanted = list(texts)
    if not wanted:
        return ()
    tokens = {i: tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab)}
    for text in wanted:
        having: set[Breaker] = {i for i, token in tokens.items() if text and text in token}
        for cut in range(1, len(text)):
            begin = text[:cut]
            heads = [i for i, token in tokens.items() if token.endswith(begin) and i not in having]
            if heads:
                rest = tokenizer.encode(text[cut:], add_special=False)[:_MAX_TAIL]
                having |= {(head, *rest) for head in heads if rest}
        if not having:
            raise InvalidArgumentError(
                f"a sequence breaker is {text.decode(errors='replace')!r:.80}, must be a text that "
                "the model's tokens can spell"
            )
        found |= having
    return tuple(found)


def drawn_seed() -> int:
    """A fresh seed, short enough to be typed again."""
    return secrets.randbits(32)

"""Prompts: text or token ids in, checked ids out.

Boundary: knows no model, only a tokenizer, and the sizes of a vocabulary and a context.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maglio.errors import ContextFullError, InvalidArgumentError
from maglio.text import Tokenizer
from maglio.tokens import checked_tokens

Prompt = str | Sequence[int]
"""Text, encoded with the model's tokenizer, or token ids, taken as they are."""


def encoded(
    prompt: Prompt, tokenizer: Tokenizer, *, n_vocab: int, n_ctx: int, parse_special: bool = False
) -> list[int]:
    """Return the ids of a prompt.

    Args:
        prompt: text or ids.
        tokenizer: encodes text.
        n_vocab: ids must be below.
        n_ctx: most tokens of a prompt. A text that is sure to have more is not encoded.
        parse_special: whether what looks like a control token in a text is one.

    Raises:
        InvalidArgumentError: it is empty, or not a prompt at all.
        ContextFullError: it is a text that is sure to be too long. Others may be too.
    """
    if not isinstance(prompt, (str, Sequence, np.ndarray)) or isinstance(prompt, bytes):
        raise InvalidArgumentError(f"the prompt is {prompt!r:.80}, must be text or token ids")
    if isinstance(prompt, str):
        # At most n_ctx characters are quickly encoded.
        fewest = tokenizer.fewest_tokens(prompt) if len(prompt) > n_ctx else 0
        if fewest > n_ctx:
            raise ContextFullError(
                f"the prompt of {len(prompt):,} characters has at least {fewest:,} tokens, more "
                f"than the context of {n_ctx}; shorten it, or load the model with a larger n_ctx"
            )
        ids = tokenizer.encode(prompt, parse_special=parse_special)
    else:
        ids = checked_tokens("prompt_tokens", prompt, n_vocab)
    if len(ids) == 0:
        raise InvalidArgumentError(
            "the prompt is empty; give at least one token for the model to continue"
        )
    return ids

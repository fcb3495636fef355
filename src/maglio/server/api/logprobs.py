"""Log-probabilities as OpenAI's clients read them.

Boundary: from values to documents; needs a tokenizer for the texts of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maglio.decode import TokenLogprob
from maglio.text import Tokenizer

IMPOSSIBLE = -9999.0
"""Stands for the logarithm of zero, which JSON has no number for."""


def chat_logprobs(logprobs: Sequence[TokenLogprob], tokenizer: Tokenizer) -> dict[str, Any]:
    """``logprobs`` of a choice of a chat."""
    return {
        "content": [
            {
                **_token(token.token, token.logprob, tokenizer),
                "top_logprobs": [_token(*pair, tokenizer) for pair in token.top],
            }
            for token in logprobs
        ],
        "refusal": None,
    }


def _token(token: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    data = tokenizer.token_bytes(token)
    return {
        "token": data.decode("utf-8", "replace"),
        "logprob": max(logprob, IMPOSSIBLE),
        "bytes": list(data),
    }


def completion_logprobs(
    logprobs: Sequence[TokenLogprob], tokenizer: Tokenizer, *, offset: int
) -> tuple[dict[str, Any], int]:
    """``logprobs`` of a choice of a completion, and the offset of what comes next.

    Args:
        logprobs: of some tokens.
        tokenizer: of the model.
        offset: where the text of the first of them begins.
    """
    offsets: list[int] = []
    for token in logprobs:
        offsets.append(offset)
        offset += len(tokenizer.token_bytes(token.token).decode("utf-8", "replace"))
    found = {
        "tokens": [_text(token.token, tokenizer) for token in logprobs],
        "token_logprobs": [max(token.logprob, IMPOSSIBLE) for token in logprobs],
        "top_logprobs": [
            {_text(one, tokenizer): max(value, IMPOSSIBLE) for one, value in token.top}
            for token in logprobs
        ],
        "text_offset": offsets,
    }
    return found, offset


def _text(token: int, tokenizer: Tokenizer) -> str:
    """The text of a token; the bytes of one that is no text, as OpenAI spells them."""
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

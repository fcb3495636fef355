"""Log-probabilities as OpenAI's clients read them.

Boundary: from values to documents; needs a tokenizer for the texts of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maglio.decode import TokenLogprob
from maglio.text import Tokenizer
from maglio.text.detokenizer import Detokenizer

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


class TextOffsets:
    """Where the tokens of a completion begin in its text.

    A token that goes on with a character begins where the character does.

    Args:
        tokenizer: of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._detokenizer = Detokenizer(tokenizer, continues=True)
        self._offset = 0  # of the first character that is not complete

    def next(self, token: int) -> int:
        """The offset of the next token, in characters."""
        offset = self._offset
        self._offset += len(self._detokenizer.push(token))
        return offset


def completion_logprobs(
    logprobs: Sequence[TokenLogprob], tokenizer: Tokenizer, offsets: TextOffsets
) -> dict[str, Any]:
    """``logprobs`` of a choice of a completion.

    Args:
        logprobs: of some tokens.
        tokenizer: of the model.
        offsets: those of the choice, up to these tokens.
    """
    return {
        "tokens": [_text(token.token, tokenizer) for token in logprobs],
        "token_logprobs": [max(token.logprob, IMPOSSIBLE) for token in logprobs],
        "top_logprobs": [
            {_text(one, tokenizer): max(value, IMPOSSIBLE) for one, value in token.top}
            for token in logprobs
        ],
        "text_offset": [offsets.next(token.token) for token in logprobs],
    }


def _text(token: int, tokenizer: Tokenizer) -> str:
    """The text of a token; the bytes of one that is no text, as OpenAI spells them."""
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

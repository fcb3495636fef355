"""``/tokenize`` and ``/detokenize``, as llama.cpp has them.

Boundary: the tokenizer alone; nothing is generated.
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from starlette.responses import Response

from maglio.server.endpoint import Call, document
from maglio.server.schema.tokens import DetokenizeRequest, TokenizeRequest
from maglio.text import Tokenizer


async def tokenize(call: Call) -> Response:
    """Split a text into tokens."""
    body = await call.body(TokenizeRequest)
    return await anyio.to_thread.run_sync(_tokens, body, call.state.model.tokenizer)


async def detokenize(call: Call) -> Response:
    """Join tokens to a text."""
    body = await call.body(DetokenizeRequest)
    tokenizer = call.state.model.tokenizer
    text = await anyio.to_thread.run_sync(lambda: tokenizer.decode(body.tokens, show_control=True))
    return document({"content": text})


def _tokens(body: TokenizeRequest, tokenizer: Tokenizer) -> Response:
    ids = tokenizer.encode(
        body.content, add_special=body.add_special, parse_special=body.parse_special
    )
    if not body.with_pieces:
        return document({"tokens": ids})
    return document({"tokens": [{"id": token, "piece": _piece(token, tokenizer)} for token in ids]})


def _piece(token: int, tokenizer: Tokenizer) -> Any:  # noqa: ANN401  # whatever JSON holds
    """The text of a token; its bytes if they are no text."""
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)

"""A server whose answers are written by hand, as tests of the page need them.

It speaks what the page reads: ``/v1/models``, and ``/v1/chat/completions`` with ``token_sources``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from maglio.server import page


@dataclass(frozen=True, slots=True)
class Forward:
    """What one forward gives: (text, source) of its tokens, and how many were drafted."""

    tokens: Sequence[tuple[str, str]]
    drafted: int = 0
    is_thought: bool = False

    @property
    def accepted(self) -> int:
        return sum(source != "model" for _, source in self.tokens)


@dataclass
class Script:
    """What the server says; tests change it.

    Attributes:
        answer: the forwards of an answer; thoughts come first.
        plain: what it says without speculation instead, for a server that is wrong.
        key: the API key that it asks for.
        refusal: (status, message) instead of answers.
        failure: a message in the middle of a stream.
        is_endless: the stream never ends by itself.
        requests: what it was sent.
        was_left: whether a client left before the end.
    """

    answer: Sequence[Forward] = (Forward([("Hello", "model")]),)
    plain: Sequence[Forward] | None = None
    key: str = ""
    refusal: tuple[int, str] | None = None
    failure: str = ""
    is_endless: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    was_left: asyncio.Event = field(default_factory=asyncio.Event)


def scripted_app(script: Script) -> Starlette:
    def refused(request: Request) -> Response | None:
        if script.key and request.headers.get("authorization") != f"Bearer {script.key}":
            return _error(401, "wrong key")
        return None

    async def models(request: Request) -> Response:
        return refused(request) or JSONResponse({"data": [{"id": "scripted-model"}]})

    async def chat(request: Request) -> Response:
        body = await request.json()
        script.requests.append(body)
        if (refusal := refused(request)) is not None:
            return refusal
        if script.refusal is not None:
            return _error(*script.refusal)
        return StreamingResponse(_stream(script, body), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            *page.routes(),
        ]
    )


async def _stream(script: Script, body: dict[str, Any]) -> AsyncIterator[str]:
    assert body["stream"]
    assert body["token_sources"]
    is_plain = not body["speculative"]
    forwards = script.plain if is_plain and script.plain is not None else script.answer
    part = "reasoning_content"
    try:
        for forward in forwards:
            if not forward.is_thought:
                part = "content"
            for chunk in _chunks(forward, part, is_plain=is_plain):
                yield chunk
            await asyncio.sleep(0.002)
        if script.failure:
            yield _event({"error": {"message": script.failure}})
            return
        while script.is_endless:
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        script.was_left.set()
        raise
    yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    details = {"cached_tokens": 5}
    usage = {"prompt_tokens": 12, "completion_tokens": 1, "prompt_tokens_details": details}
    yield _event({"choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _chunks(forward: Forward, part: str, *, is_plain: bool) -> Iterator[str]:
    pieces = [
        {"text": text, "source": "model" if is_plain else source} for text, source in forward.tokens
    ]
    told = {
        "sources": [piece["source"] for piece in pieces],
        "drafted": 0 if is_plain else forward.drafted,
        "accepted": 0 if is_plain else forward.accepted,
    }
    yield _event({"choices": [{"index": 0, "delta": {}, "forward": told}]})
    delta = {part: "".join(text for text, _ in forward.tokens)}
    choice = {"index": 0, "delta": delta, "sources": pieces, "finish_reason": None}
    yield _event({"choices": [choice]})


def _event(value: object) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status_code=status)

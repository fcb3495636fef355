"""``/v1/completions``.

Boundary: OpenAI's wire form of completions, whole and in chunks.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio.to_thread
from starlette.responses import Response

from maglio.decode import TokenLogprob
from maglio.generation import Generation, TextToken
from maglio.server.dialects.openai.logprobs import TextOffsets, completion_logprobs
from maglio.server.endpoint import Call, document, openai_stream
from maglio.server.http.event_stream import event
from maglio.server.schema.completion import CompletionRequest
from maglio.server.streams.event import Began, Ended, Wrote
from maglio.server.task.answer import sourced
from maglio.server.task.completion_task import CompletionPlan, planned_completion
from maglio.server.task.delta import Sourced
from maglio.server.task.running import Running
from maglio.server.telemetry.usage import Usage


async def completions(call: Call) -> Response:
    """Continue texts."""
    return await answer_completion(call, await call.body(CompletionRequest))


async def answer_completion(call: Call, body: CompletionRequest) -> Response:
    """The same for a body that has been read."""
    if body.stream:
        return openai_stream(call, _events(call, body))
    return await call.answer(_whole(call, body))


class _Completions:
    """The completions of one request as they come."""

    def __init__(
        self, call: Call, body: CompletionRequest, name: str, plan: CompletionPlan
    ) -> None:
        self._call = call
        self._body = body
        self._plan = plan
        self._cached = [0] * len(plan.requests)
        self._offsets = [TextOffsets(call.state.model.tokenizer) for _ in plan.requests]
        self.usages: dict[int, Usage] = {}
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": call.state.now(),
            "model": name,
            "system_fingerprint": call.state.fingerprint,
            "seed": plan.seed,
        }

    async def pieces(self) -> AsyncGenerator[dict[str, Any], None]:
        """Choices as chunks have them."""
        for index in range(len(self._plan.requests) if self._body.echo else 0):
            yield self._choice(index, self._plan.texts[index // self._plan.per_prompt])
        async with Running(self._plan.requests, self._call.state, self._call.record) as running:
            async for index, happened in running.events():
                if isinstance(happened, Began):
                    self._cached[index] = happened.cached_tokens
                elif isinstance(happened, Wrote):
                    yield self._written(index, happened.tokens)
                elif isinstance(happened, Ended):
                    yield self._ended(index, happened.generation)
                    running.note(
                        [(happened.generation.finish_reason or "stop", self.usages[index])]
                    )

    def _written(self, index: int, tokens: tuple[TextToken, ...]) -> dict[str, Any]:
        text = "".join(token.text for token in tokens)
        choice = self._choice(index, text)
        if self._body.logprobs is not None:
            logprobs: list[TokenLogprob] = [t.logprob for t in tokens if t.logprob is not None]
            choice["logprobs"] = completion_logprobs(
                logprobs, self._call.state.model.tokenizer, self._offsets[index]
            )
        if self._body.token_sources:
            choice["sources"] = [_source(piece) for piece in sourced(text, tokens)]
        return choice

    def _ended(self, index: int, generation: Generation) -> dict[str, Any]:
        self.usages[index] = Usage.of(
            generation.stats,
            prompt=self._plan.prompt_tokens(index),
            cached=self._cached[index],
            tokens=len(generation.tokens),
        )
        return self._choice(index, "", reason=generation.finish_reason)

    @staticmethod
    def _choice(index: int, text: str, *, reason: str | None = None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}

    @property
    def usage(self) -> Usage:
        """Of all of them; each prompt counts once."""
        step = self._plan.per_prompt
        prompts = [range(first, first + step) for first in range(0, len(self.usages), step)]
        return Usage.total(
            [Usage.of_one_prompt([self.usages[index] for index in prompt]) for prompt in prompts]
        )


async def _begin(call: Call, body: CompletionRequest) -> _Completions:
    name = call.state.settings.name_of(body.model)
    plan = await anyio.to_thread.run_sync(planned_completion, body, call.state)
    return _Completions(call, body, name, plan)


async def _whole(call: Call, body: CompletionRequest) -> Response:
    found = await _begin(call, body)
    choices: dict[int, dict[str, Any]] = {}
    async with aclosing(found.pieces()) as pieces:
        async for piece in pieces:
            index = piece["index"]
            choices[index] = _joined(choices[index], piece) if index in choices else piece
    answers = [choices[index] for index in sorted(choices)]
    usage = found.usage
    return document(
        found.head | {"choices": answers, "usage": usage.document, "timings": usage.timings}
    )


async def _events(call: Call, body: CompletionRequest) -> AsyncGenerator[bytes, None]:
    found = await _begin(call, body)
    tail: dict[str, Any] = {"usage": None} if body.includes_usage else {}
    async with aclosing(found.pieces()) as pieces:
        async for piece in pieces:
            more = tail
            if piece["finish_reason"] is not None:
                more = tail | {"timings": found.usages[piece["index"]].timings}
            yield event(found.head | {"choices": [piece]} | more)
    if body.includes_usage:
        usage = found.usage
        yield event(found.head | {"choices": [], "usage": usage.document, "timings": usage.timings})
    yield event("[DONE]")


def _joined(one: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """A choice, and what it goes on with."""
    whole = one | {"text": one["text"] + more["text"], "finish_reason": more["finish_reason"]}
    if more["logprobs"] is not None:
        before = one["logprobs"] or {name: [] for name in more["logprobs"]}
        whole["logprobs"] = {name: before[name] + more["logprobs"][name] for name in before}
    if "sources" in more:
        whole["sources"] = one.get("sources", []) + more["sources"]
    return whole


def _source(piece: Sourced) -> dict[str, str]:
    return {"text": piece.text, "source": piece.source}

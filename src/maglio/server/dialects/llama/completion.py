"""llama.cpp's ``/completion``.

Boundary: its wire form, whole and in events. A stream has no ``[DONE]``; its last event has
``stop``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import anyio.to_thread
from starlette.responses import Response

from maglio.decode import TokenLogprob
from maglio.generation import Generation, TextToken
from maglio.server.dialects.openai.completions import answer_completion
from maglio.server.dialects.openai.logprobs import IMPOSSIBLE
from maglio.server.endpoint import Call, document, openai_stream
from maglio.server.http.event_stream import event
from maglio.server.schema.completion import CompletionRequest
from maglio.server.schema.llama import LlamaRequest
from maglio.server.schema.wire import read
from maglio.server.streams.event import Began, Ended, Wrote
from maglio.server.task.completion_task import CompletionPlan, planned_completion
from maglio.server.task.running import Running
from maglio.server.telemetry.usage import Usage
from maglio.text import Tokenizer


async def completion(call: Call) -> Response:
    """Continue texts."""
    return await _answer(call, await call.body(LlamaRequest))


async def either_completion(call: Call) -> Response:
    """Continue texts at a path that OpenAI's and llama.cpp's clients share.

    llama.cpp's own say ``n_predict``.
    """
    body = await call.json()
    if isinstance(body, dict) and "n_predict" in body:
        return await _answer(call, read(LlamaRequest, body))
    return await answer_completion(call, read(CompletionRequest, body))


async def _answer(call: Call, body: LlamaRequest) -> Response:
    if body.stream:
        return openai_stream(call, _events(call, body))
    return await call.answer(_whole(call, body))


async def _whole(call: Call, body: LlamaRequest) -> Response:
    texts: dict[int, str] = {}
    tokens: dict[int, list[int]] = {}
    probabilities: dict[int, list[dict[str, Any]]] = {}
    ends: dict[int, dict[str, Any]] = {}
    async with aclosing(_pieces(call, body)) as pieces:
        async for piece in pieces:
            index = piece["index"]
            texts[index] = texts.get(index, "") + piece["content"]
            tokens.setdefault(index, []).extend(piece["tokens"])
            probabilities.setdefault(index, []).extend(piece.get("completion_probabilities", ()))
            if piece["stop"]:
                ends[index] = piece
    answers = []
    for index in sorted(ends):
        kept = {"content": texts[index], "tokens": tokens[index] if body.return_tokens else []}
        answer = ends[index] | kept
        if body.n_probs:
            answer["completion_probabilities"] = probabilities[index]
        answers.append(answer)
    return document(answers[0] if len(answers) == 1 else answers)


async def _events(call: Call, body: LlamaRequest) -> AsyncGenerator[bytes, None]:
    async with aclosing(_pieces(call, body)) as pieces:
        async for piece in pieces:
            yield event(piece)


async def _pieces(call: Call, body: LlamaRequest) -> AsyncGenerator[dict[str, Any], None]:
    """What each event has to say; the last of each generation has ``stop``."""
    name = call.state.settings.name_of(body.model)
    plan = await anyio.to_thread.run_sync(planned_completion, body.completion, call.state)
    tokenizer = call.state.model.tokenizer
    cached = [0] * len(plan.requests)
    counts = [0] * len(plan.requests)
    async with Running(plan.requests, call.state, call.record) as running:
        async for index, happened in running.events():
            if isinstance(happened, Began):
                cached[index] = happened.cached_tokens
            elif isinstance(happened, Wrote):
                counts[index] += len(happened.tokens)
                counted = _counted(plan, index, counts[index])
                yield counted | _written(happened.tokens, body, tokenizer)
            elif isinstance(happened, Ended):
                end = happened.generation
                usage = Usage.of(
                    end.stats,
                    prompt=plan.prompt_tokens(index),
                    cached=cached[index],
                    tokens=len(end.tokens),
                )
                running.note([(end.finish_reason or "stop", usage)])
                counted = _counted(plan, index, len(end.tokens))
                yield counted | _ended(end, usage, plan, index, tokenizer) | {"model": name}


def _counted(plan: CompletionPlan, index: int, predicted: int) -> dict[str, Any]:
    return {
        "index": index,
        "tokens_predicted": predicted,
        "tokens_evaluated": plan.prompt_tokens(index),
    }


def _written(
    tokens: Sequence[TextToken], body: LlamaRequest, tokenizer: Tokenizer
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "content": "".join(token.text for token in tokens),
        "tokens": [token.id for token in tokens],
        "stop": False,
    }
    if body.n_probs:
        known = [token.logprob for token in tokens if token.logprob is not None]
        said["completion_probabilities"] = [_probability(one, tokenizer) for one in known]
    return said


def _ended(
    end: Generation, usage: Usage, plan: CompletionPlan, index: int, tokenizer: Tokenizer
) -> dict[str, Any]:
    request = plan.requests[index]
    word = _stop_word(end, request.stop, tokenizer)
    kind = "limit" if end.finish_reason == "length" else ("word" if word else "eos")
    return {
        "content": "",
        "tokens": [],
        "stop": True,
        "prompt": plan.texts[index // plan.per_prompt],
        "has_new_line": "\n" in end.text,
        "truncated": False,
        "stop_type": kind,
        "stopping_word": word,
        "tokens_cached": usage.prompt_tokens + usage.completion_tokens,
        "timings": usage.timings,
        "generation_settings": {"n_predict": request.max_tokens, "seed": plan.seed + index},
    }


def _stop_word(end: Generation, stops: Sequence[str], tokenizer: Tokenizer) -> str:
    """The stop text that ended a generation; empty if none did."""
    if end.finish_reason != "stop" or not stops or not end.tokens:
        return ""
    rest = tokenizer.decode(end.tokens, continues=True)[len(end.text) :]
    name = tokenizer.token_bytes(end.tokens[-1]).decode("utf-8", "replace")
    found = (stop for stop in stops if rest.startswith(stop) or stop == name)
    return next(found, "")


def _probability(found: TokenLogprob, tokenizer: Tokenizer) -> dict[str, Any]:
    top = [_named(token, value, tokenizer) for token, value in found.top]
    return _named(found.token, found.logprob, tokenizer) | {"top_logprobs": top}


def _named(token: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    data = tokenizer.token_bytes(token)
    return {
        "id": token,
        "token": data.decode("utf-8", "replace"),
        "bytes": list(data),
        "logprob": max(logprob, IMPOSSIBLE),
    }

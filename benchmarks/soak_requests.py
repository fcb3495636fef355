"""What a soak asks: requests that are answered, and requests that are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from soak_wire import Asked, Manner

WORDS = [
    *("the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "home", "while", "rain"),
    *("fell", "over", "some", "old", "town", "where", "nobody", "said", "12", "3.5", "{x}", "`y`"),
    *("\u00e9t\u00e9", "\u4e2d\u6587", "\U0001f600", "\n"),
]
SYSTEMS = ("", "Be short. " * 12, "You know all about towns, rain and cats. " * 6)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}},
    "required": ["name", "n"],
    "additionalProperties": False,
}
TOOL = {
    "name": "look",
    "description": "Looks something up.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"enum": ["town", "home"]}},
        "required": ["place"],
    },
}
JSON = ("content-type", "application/json")
PATHS = {
    "chat": "/v1/chat/completions",
    "completion": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "llama": "/completion",
}
WEIGHTS: dict[Manner, int] = {
    "plain": 60,
    "slow": 4,
    "leave": 14,
    "half-close": 6,
    "garbage": 6,
    "unfinished": 4,
}


@dataclass(frozen=True, slots=True)
class Question:
    """A request of a soak.

    Attributes:
        asked: what is sent,
        manner: and how.
        kind: its name in the report.
        statuses: what it may be answered with; no answer at all is for the manner to allow.
        same: equal ones have equal answers; ``None`` says nothing.
        body: the document that was sent, where there is one.
    """

    asked: Asked
    manner: Manner
    kind: str
    statuses: frozenset[int]
    same: str | None = None
    body: dict[str, Any] | None = None


def text(rng: random.Random, n_words: int) -> str:
    """Some words."""
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


def _drafting(rng: random.Random) -> dict[str, Any]:
    """What changes speed and no answer."""
    ways: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"speculative": False},
        {"speculative": {"max_draft": 4, "gate": False, "policy": "record"}},
        {"references": [text(rng, 40)]},
    )
    return rng.choice(ways)


def _sampling(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"temperature": 0}
    return {"temperature": rng.choice((0.7, 1.3)), "top_p": 0.9, "seed": rng.randrange(1 << 30)}


def _messages(rng: random.Random) -> list[dict[str, str]]:
    roles = ("user", "assistant") * rng.randrange(3) + ("user",)
    turns = [{"role": role, "content": text(rng, rng.randrange(1, 40))} for role in roles]
    system = rng.choice(SYSTEMS)
    return [{"role": "system", "content": system}, *turns] if system else turns


def chat(rng: random.Random) -> dict[str, Any]:
    """A body of ``/v1/chat/completions``."""
    body = {"messages": _messages(rng), **_sampling(rng), **_drafting(rng)}
    more: tuple[dict[str, Any], ...] = (
        {},
        {"n": rng.randrange(2, 5)},
        {"stop": ["a", "ou"]},
        {"logprobs": True, "top_logprobs": rng.randrange(4)},
        {"prediction": {"type": "content", "content": text(rng, 30)}},
        {"token_sources": True},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"grammar": 'root ::= ("cat" | "dog" | [0-9]+)+'},
        {"tools": [{"type": "function", "function": TOOL}], "tool_choice": "required"},
        {"tools": [{"type": "function", "function": TOOL}]},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.5},
    )
    return body | rng.choice(more)


def completion(rng: random.Random) -> dict[str, Any]:
    """A body of ``/v1/completions``."""
    prompts: tuple[Any, ...] = (text(rng, 30), [text(rng, 5), text(rng, 9)], [65, 66, 67, 68])
    more: tuple[dict[str, Any], ...] = ({}, {"echo": True}, {"logprobs": 2}, {"n": 2})
    return {"prompt": rng.choice(prompts), **_sampling(rng), **_drafting(rng)} | rng.choice(more)


def messages(rng: random.Random) -> dict[str, Any]:
    """A body of ``/v1/messages``."""
    turns = [turn for turn in _messages(rng) if turn["role"] != "system"]
    tool = {"name": "look", "input_schema": TOOL["parameters"]}
    more = ({}, {"stop_sequences": ["a"]}, {"system": SYSTEMS[2]}, {"tools": [tool]})
    return {"messages": turns, "temperature": 0} | rng.choice(more)


def responses(rng: random.Random) -> dict[str, Any]:
    """A body of ``/v1/responses``."""
    tool = {"type": "function", **TOOL}
    more: tuple[dict[str, Any], ...] = ({}, {"instructions": SYSTEMS[1]}, {"tools": [tool]})
    return {"input": text(rng, 30), "temperature": 0} | rng.choice(more)


def llama(rng: random.Random) -> dict[str, Any]:
    """A body of ``/completion``."""
    return {"prompt": text(rng, 25), **_sampling(rng), "n_probs": rng.choice((0, 2))}


_BODIES = {
    "chat": chat,
    "completion": completion,
    "messages": messages,
    "responses": responses,
    "llama": llama,
}
_LIMITS = {"responses": "max_output_tokens", "llama": "n_predict"}


def answered(number: int, key: str, manner: Manner, *, streamed: bool) -> Question:
    """A request that works; the same number asks the same."""
    rng = random.Random(number)
    kind = rng.choices(list(_BODIES), (8, 3, 2, 2, 1))[0]
    body = _BODIES[kind](rng) | {_LIMITS.get(kind, "max_tokens"): rng.choice((1, 8, 24, 60))}
    if kind != "llama":
        body["model"] = "soak"
    body["stream"] = streamed
    header = ("x-api-key", key) if kind == "messages" else ("authorization", f"Bearer {key}")
    return Question(
        Asked("POST", PATHS[kind], (JSON, header), json.dumps(body).encode()),
        manner,
        kind,
        frozenset({200, 400} if manner == "garbage" else {200}),
        # A call that is cut off is a call in a stream, and text in a whole answer.
        same=f"{kind} {number} {streamed and 'tools' in body}",
        body=body,
    )


def refused(rng: random.Random, key: str) -> Question:
    """A request that does not work, for one of many reasons."""
    kind = rng.choice(("chat", "completion", "messages", "responses"))
    path = PATHS[kind]
    bearer = ("authorization", f"Bearer {key}")
    good = {
        **_BODIES[kind](random.Random(rng.randrange(50))),
        _LIMITS.get(kind, "max_tokens"): 4,
        "model": "soak",
    }
    sent = json.dumps(good).encode()

    def post(body: bytes, why: str, *statuses: int, headers: Sequence[tuple[str, str]] = (),
             chunked: bool = False, at: str = path) -> Question:  # fmt: skip
        asked = Asked("POST", at, tuple(headers or (JSON, bearer)), body, chunked)
        return Question(asked, "plain", f"refused: {why}", frozenset(statuses))

    long = {"messages": [{"role": "user", "content": "long words " * 100_000}], "max_tokens": 4}
    ways = (
        lambda: post(sent[: rng.randrange(len(sent))], "broken JSON", 400),
        lambda: post(b"[" * 300 + b"]" * 300, "deep JSON", 400),
        lambda: post(rng.randbytes(200), "not JSON", 400),
        lambda: post(json.dumps(good | {"temperature": 9}).encode(), "bad value", 400),
        lambda: post(json.dumps(good | {"stream": "sometimes"}).encode(), "bad type", 400),
        lambda: post(json.dumps(good | {"model": "other"}).encode(), "other model", 404),
        lambda: post(
            json.dumps(long | {"model": "soak"}).encode(), "over the context", 400,
            at=PATHS[rng.choice(("chat", "messages"))],
        ),
        lambda: post(
            json.dumps(good | {"grammar": "root ::= ("}).encode(), "bad grammar", 400,
            at=PATHS["chat"],
        ) if kind == "chat" else post(b"", "no body", 400),
        lambda: post(sent, "wrong key", 401, headers=[JSON, ("authorization", "Bearer wrong")]),
        lambda: post(sent, "no key", 401, headers=[JSON]),
        lambda: post(sent, "unknown path", 404, at=path + "/x/y"),
        lambda: post(sent, "wrong type", 415, headers=[("content-type", "text/plain"), bearer]),
        lambda: Question(
            Asked("GET", path, (bearer,), b""), "plain", "refused: wrong method", frozenset({405})
        ),
    )  # fmt: skip
    if rng.random() < 0.03:  # they are long, and so few
        return post(b'"' + b"x" * (17 << 20) + b'"', "over 16 MiB", 413, chunked=rng.random() < 0.5)
    return rng.choice(ways)()


def question(rng: random.Random, keys: Sequence[str], variants: int) -> Question:
    """One request of a soak."""
    key = rng.choice(keys)
    if rng.random() < 0.2:
        return refused(rng, key)
    manner = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return answered(rng.randrange(variants), key, manner, streamed=rng.random() < 0.5)

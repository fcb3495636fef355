"""The official ``openai`` package makes its own calls, and finds what it expects."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from pydantic import BaseModel

openai = pytest.importorskip("openai", reason="openai is not installed")

HELLO = [{"role": "user", "content": "hello"}]
WHOLE = {"ignore_eos": True}  # for answers of a known length


@pytest.fixture(scope="module")
def ai(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_models(ai):
    assert [model.id for model in ai.models.list()] == ["tiny"]
    assert ai.models.retrieve("tiny").owned_by == "maglio"


def test_a_chat(ai):
    answer = ai.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=8, n=2, extra_body=WHOLE
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 16
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.usage.completion_tokens_details.accepted_prediction_tokens == 0
    assert answer.system_fingerprint.startswith("fp_")


def test_a_chat_streamed(ai):
    options = {"model": "tiny", "messages": HELLO, "max_tokens": 12, "seed": 1}
    options["extra_body"] = WHOLE
    whole = ai.chat.completions.create(**options).choices[0]
    chunks = list(
        ai.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    )
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.message.content
    assert chunks[-2].choices[0].finish_reason == whole.finish_reason
    assert chunks[-1].usage.completion_tokens == 12


def test_logprobs(ai):
    answer = ai.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=5, logprobs=True, top_logprobs=3, extra_body=WHOLE
    )
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 5
    assert all(len(token.top_logprobs) == 3 for token in tokens)
    assert all(token.logprob <= token.top_logprobs[0].logprob + 1e-6 for token in tokens)


def test_a_stream_that_is_left_is_closed(ai, server):
    stream = ai.chat.completions.create(model="tiny", messages=HELLO, stream=True)
    next(iter(stream))
    stream.close()
    assert ai.chat.completions.create(model="tiny", messages=HELLO, max_tokens=1).choices


def test_completions(ai):
    answer = ai.completions.create(
        model="tiny", prompt=["a", "b"], max_tokens=4, logprobs=2, extra_body=WHOLE
    )
    assert len(answer.choices) == 2
    assert len(answer.choices[0].logprobs.token_logprobs) == 4
    pieces = ai.completions.create(
        model="tiny", prompt="a", max_tokens=4, stream=True, extra_body=WHOLE
    )
    assert [piece.choices[0].finish_reason for piece in pieces][-1] == "length"


def test_structured_outputs_are_parsed(ai):
    class Answer(BaseModel):
        kind: Literal["cat", "dog"]
        count: Literal[1, 2, 3]

    parsed = ai.chat.completions.parse(
        model="tiny", messages=HELLO, response_format=Answer, max_tokens=100
    )
    assert isinstance(parsed.choices[0].message.parsed, Answer)
    with ai.chat.completions.stream(
        model="tiny", messages=HELLO, response_format=Answer, max_tokens=100
    ) as stream:
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Answer)


def test_a_prediction_is_understood(ai):
    answer = ai.chat.completions.create(
        model="tiny",
        messages=HELLO,
        max_tokens=8,
        prediction={"type": "content", "content": "hello there"},
    )
    details = answer.usage.completion_tokens_details
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens >= 0


def test_what_is_ours_goes_in_the_extra_body(ai):
    answer = ai.chat.completions.create(
        model="tiny",
        messages=HELLO,
        max_tokens=8,
        seed=3,
        extra_body={"speculative": False, "references": ["hello"], "top_k": 1},
    )
    assert answer.model_extra["timings"]["draft_n"] == 0
    assert answer.model_extra["seed"] == 3


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"temperature": 3}, "BadRequestError"),
        ({"messages": HELLO * 2000}, "BadRequestError"),
        ({"model": "other"}, "NotFoundError"),
        ({"extra_body": {"magic": 1}}, "BadRequestError"),
    ],
)
def test_errors_are_of_the_right_kind(ai, options, kind):
    with pytest.raises(getattr(openai, kind)) as caught:
        ai.chat.completions.create(**{"model": "tiny", "messages": HELLO} | options)
    assert caught.value.body["message"]


def test_the_asynchronous_client(server):
    async def run():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
            options = {"model": "tiny", "messages": HELLO, "max_tokens": 10}

            async def streamed(seed):
                stream = await client.chat.completions.create(**options, seed=seed, stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in stream])

            async def whole(seed):
                answer = await client.chat.completions.create(**options, seed=seed)
                return answer.choices[0].message.content

            seeds = range(6)
            pieces = await asyncio.gather(*map(streamed, seeds))
            assert pieces == await asyncio.gather(*map(whole, seeds))

    asyncio.run(run())

"""llama.cpp's ``/completion``, as its clients use it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from support.http_server import Running

GREEDY: dict[str, Any] = {"prompt": "Once upon", "n_predict": 20, "temperature": 0.0}
CONTINUE = {
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "min_p": 0.0,
    "mirostat": 0,
    "top_k": 40,
    "top_p": 0.95,
    "stop": [],
    "cache_prompt": True,
    "id_slot": -1,
}
"""What the editor extension Continue sends besides."""


def post(client: httpx.Client, path: str = "/completion", **fields: Any) -> Any:
    answer = client.post(path, json={**GREEDY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def streamed(client: httpx.Client, path: str = "/completion", **fields: Any) -> list[Any]:
    answer = client.post(path, json={**GREEDY, "stream": True, **fields})
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.strip().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_the_answer_is_that_of_the_library(client: httpx.Client, server: Running) -> None:
    answer = post(client, return_tokens=True, **CONTINUE)
    alone = server.model.generate("Once upon", max_tokens=20)
    assert answer["content"] == alone.text
    assert tuple(answer["tokens"]) == alone.tokens
    assert answer["stop"] is True
    assert (answer["stop_type"], answer["stopping_word"]) == ("limit", "")
    read = len(server.model.tokenizer.encode("Once upon", add_special=True))
    assert (answer["tokens_predicted"], answer["tokens_evaluated"]) == (20, read)
    assert answer["timings"]["predicted_n"] == 20
    assert answer["prompt"] == "Once upon"
    assert answer["model"] == "tiny"


def test_a_stream_adds_up_to_the_whole(client: httpx.Client) -> None:
    whole = post(client, return_tokens=True)
    *pieces, last = streamed(client)
    assert "".join(piece["content"] for piece in [*pieces, last]) == whole["content"]
    assert [token for piece in pieces for token in piece["tokens"]] == whole["tokens"]
    assert not any(piece["stop"] for piece in pieces)
    assert last["stop"] is True
    assert last["tokens_predicted"] == pieces[-1]["tokens_predicted"] == 20


def test_a_stop_text_is_named(client: httpx.Client) -> None:
    text = post(client)["content"]
    stop = text[3:5]
    answer = post(client, stop=["never said", stop])
    assert answer["content"] == text[: text.index(stop)]
    assert (answer["stop_type"], answer["stopping_word"]) == ("word", stop)


def test_several_prompts_have_an_answer_each(client: httpx.Client) -> None:
    answers = post(client, prompt=["Once upon", "A time"])
    assert [answer["index"] for answer in answers] == [0, 1]
    assert [answer["prompt"] for answer in answers] == ["Once upon", "A time"]
    assert answers[0]["content"] == post(client)["content"]


def test_ids_are_a_prompt(client: httpx.Client, server: Running) -> None:
    ids = server.model.tokenizer.encode("Once upon", add_special=True)
    assert post(client, prompt=list(ids))["content"] == post(client)["content"]


def test_probabilities_come_with_their_tokens(client: httpx.Client) -> None:
    answer = post(client, n_probs=3, return_tokens=True)
    found = answer["completion_probabilities"]
    assert [one["id"] for one in found] == answer["tokens"]
    assert all(len(one["top_logprobs"]) == 3 for one in found)
    assert all(one["logprob"] == one["top_logprobs"][0]["logprob"] for one in found)
    assert "completion_probabilities" not in post(client)


def test_a_grammar_is_kept_to(client: httpx.Client) -> None:
    assert post(client, grammar='root ::= "yes" | "no"')["content"] in ("yes", "no")
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    schema["additionalProperties"] = False
    answer = post(client, json_schema=schema, n_predict=100)
    assert json.loads(answer["content"]) == {"a": 1}
    assert answer["stop_type"] == "eos"


def test_without_a_limit_the_context_is_one(client: httpx.Client, server: Running) -> None:
    body = {"prompt": "Once upon", "temperature": 0.0, "ignore_eos": True}
    answer = client.post("/completion", json=body).json()
    assert answer["stop_type"] == "limit"
    assert answer["tokens_predicted"] > 400
    assert answer["tokens_cached"] <= server.model.engine.n_ctx + 1


def test_completions_are_answered_as_they_are_asked(client: httpx.Client) -> None:
    assert post(client, "/completions")["content"] == post(client)["content"]
    body = {"prompt": "Once upon", "max_tokens": 20, "temperature": 0.0, "model": "tiny"}
    openais = client.post("/completions", json=body).json()
    assert openais["choices"][0]["text"] == post(client)["content"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prompt": None}, "prompt"),
        ({"mirostat": 2}, "mirostat"),
        ({"post_sampling_probs": True}, "post_sampling_probs"),
        ({"n_probs": 1000}, "n_probs"),
        ({"grammar": "root ::= ("}, "grammar"),
        ({"n_predicts": 3}, "Did you mean n_predict?"),
    ],
)
def test_faults_are_told(client: httpx.Client, fields: dict[str, Any], words: str) -> None:
    answer = client.post("/completion", json={**GREEDY, **fields})
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]

"""Completions over HTTP: the same as the library's."""

from __future__ import annotations

import json
import threading

import pytest

from maglio.decode import SamplingParams, TokenLogprob
from maglio.draft.prediction import PredictedText
from maglio.request import Request
from maglio.server.dialects.openai.logprobs import TextOffsets, completion_logprobs
from maglio.text import Detokenizer


def ask(client, status=200, **body):
    answer = client.post("/v1/completions", json={"seed": 7} | body)
    assert answer.status_code == status, answer.text
    return answer.json()


def alone(server, prompt, **request):
    tokenizer = server.model.tokenizer
    ids = tokenizer.encode(prompt, parse_special=True)
    seed = request.pop("seed", 7)
    params = SamplingParams(temperature=1.0, seed=seed)
    return server.model.generate(Request(prompt=ids, sampling=params, **request))


def test_a_completion_is_what_the_library_generates(client, server):
    [choice] = ask(client, prompt="Once upon", max_tokens=30, logprobs=2)["choices"]
    expected = alone(server, "Once upon", max_tokens=30, logprobs=2)
    assert choice["text"] == expected.text
    logprobs = choice["logprobs"]
    assert logprobs["token_logprobs"] == [t.logprob for t in expected.logprobs]
    assert len(logprobs["tokens"]) == len(logprobs["text_offset"]) == len(expected.tokens)
    assert [len(top) for top in logprobs["top_logprobs"]] == [2] * len(expected.tokens)
    assert choice["finish_reason"] == expected.finish_reason


def test_a_token_begins_where_its_character_does(server):
    tokenizer = server.model.tokenizer
    ids = tokenizer.encode("né😀an\n\u4e2d", add_special=False)
    ids += [tokenizer.control_tokens["<|im_start|>"], *ids[2:4], *ids]  # broken characters too
    offsets, text = TextOffsets(tokenizer), Detokenizer(tokenizer, continues=True)
    begin = 0
    for token in ids:
        assert offsets.next(token) == begin
        begin += len(text.push(token))
    whole = tokenizer.encode("né😀an", add_special=False)
    logprobs = [TokenLogprob(token, -1.0, ()) for token in whole]
    found = completion_logprobs(logprobs, tokenizer, TextOffsets(tokenizer))
    assert len(whole) == 8
    assert found["text_offset"] == [0, 1, 1, 2, 2, 2, 2, 3]


def test_each_prompt_has_its_completions_in_order(client, server):
    answer = ask(client, prompt=["one", "two"], n=2, max_tokens=8)
    expected = [
        alone(server, prompt, max_tokens=8, seed=seed).text
        for prompt in ("one", "two")
        for seed in (7, 8)
    ]
    assert [choice["text"] for choice in answer["choices"]] == expected
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == sum(
        len(server.model.tokenizer.encode(prompt)) for prompt in ("one", "two")
    )


def test_ids_and_their_text_are_the_same_prompt(client, server):
    ids = server.model.tokenizer.encode("<|im_start|>user", parse_special=True)
    by_ids = ask(client, prompt=ids, max_tokens=9)["choices"]
    assert by_ids == ask(client, prompt="<|im_start|>user", max_tokens=9)["choices"]
    assert by_ids == ask(client, prompt=[ids], max_tokens=9)["choices"]


def test_without_a_limit_there_are_sixteen_tokens(client):
    body = {"prompt": "x", "ignore_eos": True}
    assert ask(client, **body)["usage"]["completion_tokens"] == 16


def test_echo_puts_the_prompt_first(client):
    plain = ask(client, prompt="Once upon", max_tokens=8)["choices"][0]["text"]
    options = {"prompt": "Once upon", "max_tokens": 8, "echo": True}
    assert ask(client, **options)["choices"][0]["text"] == "Once upon" + plain
    streamed = client.post("/v1/completions", json={"seed": 7, "stream": True} | options)
    events = [json.loads(e.removeprefix("data: ")) for e in streamed.text.split("\n\n")[:-2]]
    assert "".join(e["choices"][0]["text"] for e in events) == "Once upon" + plain


def test_echo_of_nothing_more(client):
    answer = ask(client, prompt="Once upon", max_tokens=0, echo=True)
    assert answer["choices"][0]["text"] == "Once upon"
    assert answer["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"suffix": "the end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": ["x"] * 33, "n": 2}, "n"),
        ({"prompt": []}, "prompt"),
    ],
)
def test_what_is_not_done_is_refused_by_name(client, fields, param):
    error = ask(client, 400, **{"prompt": "x"} | fields)["error"]
    assert error["param"] == param


@pytest.mark.parametrize("prompt", ["", [""], [[]]])
def test_an_empty_prompt_is_refused(client, prompt):
    assert "empty" in ask(client, 400, prompt=prompt)["error"]["message"]


def test_tokens_go_there_and_back(client):
    text = "Grüße <|im_end|>, 你好"
    found = client.post("/tokenize", json={"content": text, "with_pieces": True}).json()["tokens"]
    ids = [token["id"] for token in found]
    assert ids == client.post("/tokenize", json={"content": text}).json()["tokens"]
    assert client.post("/detokenize", json={"tokens": ids}).json() == {"content": text}
    assert "<|im_end|>" in [token["piece"] for token in found]
    plain = client.post("/tokenize", json={"content": text, "parse_special": False}).json()
    assert len(plain["tokens"]) > len(ids)
    refused = client.post("/detokenize", json={"tokens": [99999]})
    assert refused.status_code == 400


def test_a_prediction_is_prepared_before_it_is_the_turn_of_its_request(client, server, monkeypatch):
    threads = []
    make = PredictedText.__init__

    def noted(self, tokens):
        threads.append(threading.current_thread())
        make(self, tokens)

    monkeypatch.setattr(PredictedText, "__init__", noted)
    expected = {"type": "content", "content": "the cat sat on a mat"}
    body = {"prompt": "x", "max_tokens": 4, "n": 3}
    answer = ask(client, **body, prediction=expected)
    assert len(threads) == 1
    assert server.service._thread not in threads
    assert answer["choices"] == ask(client, **body)["choices"]


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_grammar_that_is_complete_ends_an_answer_that_ignores_ends(client, temperature):
    body = {"prompt": "x", "grammar": 'root ::= "cat"', "ignore_eos": True, "max_tokens": 30}
    for speculative in (False, True):
        asked = body | {"temperature": temperature, "speculative": speculative}
        [choice] = ask(client, **asked)["choices"]
        assert (choice["text"], choice["finish_reason"]) == ("cat", "stop")

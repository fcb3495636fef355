"""Chats over HTTP: the same as the library's, whole and in pieces."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.decode import SamplingParams
from maglio.request import Request
from maglio.text.prompt_text import PromptText
from support.http_server import Running

HELLO = [{"role": "user", "content": "hello"}]
SEED = 5


def ask(client: httpx.Client, **body):
    answer = client.post("/v1/chat/completions", json={"messages": HELLO, "seed": SEED} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def chunks(client: httpx.Client, **body):
    """The documents of a stream, which must end as OpenAI's do."""
    text = client.post(
        "/v1/chat/completions", json={"messages": HELLO, "seed": SEED, "stream": True} | body
    ).text
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def alone(server: Running, messages=HELLO, *, max_tokens=40, **request):
    """What the library generates for a conversation."""
    template = server.model.chat_template
    request.setdefault("sampling", SamplingParams(temperature=1.0, seed=SEED))
    return server.model.generate(
        Request(
            prompt=template.encode(template.render(messages)),
            max_tokens=max_tokens,
            show_control=True,
            **request,
        )
    )


def test_an_answer_is_what_the_library_generates(client, server):
    answer = ask(client, max_tokens=40, logprobs=True, top_logprobs=2)
    expected = alone(server, logprobs=2)
    [choice] = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": expected.text, "refusal": None}
    assert choice["finish_reason"] == expected.finish_reason
    content = choice["logprobs"]["content"]
    assert [t["logprob"] for t in content] == [t.logprob for t in expected.logprobs]
    tops = [[top["logprob"] for top in t["top_logprobs"]] for t in content]
    assert tops == [[value for _, value in t.top] for t in expected.logprobs]
    spelled = bytes(byte for t in content for byte in t["bytes"])
    assert spelled.decode("utf-8", "replace") == expected.text
    assert answer["usage"]["completion_tokens"] == len(expected.tokens)
    assert answer["model"] == "tiny"
    assert answer["seed"] == SEED


@settings(max_examples=25)
@given(
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30),
    seed=st.integers(0, 2**63 - 1),
    temperature=st.sampled_from([0, 0.7, 1, 1.5]),
    limit=st.integers(1, 40),
    stop=st.lists(st.text("aeq?", min_size=1, max_size=3), max_size=2),
    penalty=st.sampled_from([0, 0.5, -1]),
    speculative=st.sampled_from([True, False, {"max_draft": 3, "gate": False}]),
    stream=st.booleans(),
)
def test_any_answer_is_what_the_library_generates(
    server, text, seed, temperature, limit, stop, penalty, speculative, stream
):
    messages = [{"role": "user", "content": text}]
    body = {
        "messages": messages,
        "seed": seed,
        "temperature": temperature,
        "max_completion_tokens": limit,
        "stop": stop,
        "presence_penalty": penalty,
        "speculative": speculative,
    }
    params = SamplingParams(temperature=temperature, presence_penalty=penalty, seed=seed)
    expected = alone(server, messages, max_tokens=limit, sampling=params, stop=stop)
    with server.client() as client:
        if stream:
            choices = [chunk["choices"][0] for chunk in chunks(client, **body)]
            said = "".join(choice["delta"].get("content", "") for choice in choices)
            reason = choices[-1]["finish_reason"]
        else:
            [choice] = ask(client, **body)["choices"]
            said, reason = choice["message"]["content"], choice["finish_reason"]
    assert (said, reason) == (expected.text, expected.finish_reason)


def test_a_stream_is_the_whole_answer_in_pieces(client):
    whole = ask(client, max_tokens=30, logprobs=True, n=2)
    pieces = chunks(
        client, max_tokens=30, logprobs=True, n=2, stream_options={"include_usage": True}
    )
    *pieces, last = pieces
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert all(piece["usage"] is None for piece in pieces)
    for index, choice in enumerate(whole["choices"]):
        mine = [p["choices"][0] for p in pieces if p["choices"][0]["index"] == index]
        assert mine[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(p["delta"].get("content", "") for p in mine) == choice["message"]["content"]
        logprobs = [t for p in mine for t in (p["logprobs"] or {"content": []})["content"]]
        assert logprobs == choice["logprobs"]["content"]
        assert [p["finish_reason"] for p in mine[:-1]] == [None] * (len(mine) - 1)
        assert mine[-1]["finish_reason"] == choice["finish_reason"]


def test_choices_have_seeds_that_follow_each_other(client):
    both = ask(client, max_tokens=12, n=2)["choices"]
    texts = [choice["message"]["content"] for choice in both]
    later = ask(client, max_tokens=12, seed=SEED + 1)["choices"][0]["message"]["content"]
    assert texts == [ask(client, max_tokens=12)["choices"][0]["message"]["content"], later]
    assert texts[0] != texts[1]


def test_without_a_seed_answers_differ_and_say_which_it_was(client):
    answers = [ask(client, max_tokens=20, seed=None) for _ in range(2)]
    assert answers[0]["seed"] != answers[1]["seed"]
    again = ask(client, max_tokens=20, seed=answers[0]["seed"])
    assert again["choices"] == answers[0]["choices"]


@pytest.mark.parametrize("seed", [-1, -2, 0, 2**64 - 1])
def test_every_seed_of_other_servers_is_a_seed(client, seed):
    said = ask(client, max_tokens=1, seed=seed)["seed"]
    assert said == seed % 2**64 or seed == -1


def test_an_answer_ends_before_a_stop_text(client, server):
    text = ask(client, max_tokens=40)["choices"][0]["message"]["content"]
    stop = text[5:7]
    [choice] = ask(client, max_tokens=40, stop=stop)["choices"]
    assert choice["message"]["content"] == text[: text.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_the_beginning_of_a_prompt_is_read_once(client):
    long = [{"role": "user", "content": "a long story about nothing. " * 8}]
    first = ask(client, messages=long, max_tokens=4, temperature=0)
    again = ask(client, messages=long, max_tokens=4, temperature=0)
    usage = again["usage"]
    assert again["choices"] == first["choices"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
    assert usage["prompt_cache_hit_tokens"] == usage["prompt_tokens"] - 1
    assert again["timings"]["prompt_n"] == 1


def test_a_right_prediction_is_accepted_and_counted(smollm):
    options = {
        "messages": [{"role": "user", "content": "Name the planets of the solar system."}],
        "max_tokens": 48,
        "temperature": 0,
        "speculative": {"history": False},
    }
    with smollm.client() as client:
        plain = ask(client, **options)
        text = plain["choices"][0]["message"]["content"]
        predicted = {"type": "content", "content": [{"type": "text", "text": text}]}
        guided = ask(client, prediction=predicted, **options)
        wrong = predicted | {"content": "Mars" + text[4:].replace(" ", "  ")}
        astray = ask(client, prediction=wrong, **options)
    assert guided["choices"] == astray["choices"] == plain["choices"]

    def details(answer):
        return answer["usage"]["completion_tokens_details"]

    assert details(guided)["accepted_prediction_tokens"] >= 10
    assert details(guided)["rejected_prediction_tokens"] == 0
    assert details(plain)["accepted_prediction_tokens"] == 0


def test_references_change_nothing_but_speed(client):
    text = ask(client, max_tokens=60, temperature=0)["choices"][0]["message"]["content"]
    options = {"max_tokens": 60, "temperature": 0, "token_sources": True}
    plain = ask(client, **options, speculative=False)["choices"][0]
    drafted = ask(client, **options, references=[text])["choices"][0]
    assert drafted["message"] == plain["message"]
    assert {piece["source"] for piece in plain["sources"]} == {"model"}
    assert "".join(piece["text"] for piece in drafted["sources"]) == text


def test_the_last_message_can_be_gone_on_with(client, server):
    begun = [*HELLO, {"role": "assistant", "content": "Well, <|im_end|> is"}]
    options = {"messages": begun, "max_tokens": 9, "temperature": 0}
    [choice] = ask(client, continue_final_message=True, **options)["choices"]
    template = server.model.chat_template
    prompt = template.render(HELLO) + PromptText("Well, <|im_end|> is")  # a text, not a token
    request = Request(prompt=template.encode(prompt), max_tokens=9, show_control=True)
    assert choice["message"]["content"] == server.model.generate(request).text
    refused = client.post(
        "/v1/chat/completions", json={"messages": HELLO, "continue_final_message": True}
    )
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "continue_final_message"


def test_a_developer_is_the_system_where_the_template_knows_no_other(client):
    def prompt_tokens(role):
        messages = [{"role": role, "content": "be brief"}, *HELLO]
        return ask(client, messages=messages, max_tokens=8, temperature=0)

    developer, system = prompt_tokens("developer"), prompt_tokens("system")
    assert developer["choices"] == system["choices"]
    assert developer["usage"]["prompt_tokens"] == system["usage"]["prompt_tokens"]


def test_json_comes_out_where_json_is_asked_for(client):
    form = {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"yes": {"type": "boolean"}, "n": {"enum": [1, 22, 333]}},
                "required": ["yes", "n"],
                "additionalProperties": False,
            },
        },
    }
    for seed in range(4):
        [choice] = ask(client, response_format=form, max_tokens=60, seed=seed)["choices"]
        answer = json.loads(choice["message"]["content"])
        assert answer.keys() == {"yes", "n"}
        assert choice["finish_reason"] == "stop"


def test_a_grammar_of_llama_cpp_is_kept_to(client):
    [choice] = ask(client, grammar='root ::= "yes" | "no"', max_tokens=9)["choices"]
    assert choice["message"]["content"] in ("yes", "no")

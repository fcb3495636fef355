"""What the server tells its operator: metrics, a line for each request, and what it is."""

from __future__ import annotations

import io
import json

import pytest

from maglio.server import limits
from maglio.server.telemetry.record import Record
from maglio.server.telemetry.request_log import RequestLog
from support.http_server import running

SECRET = "a sentence that no log may hold"
CHAT = "/v1/chat/completions"


@pytest.fixture
def fresh(tiny_chat):
    with running(tiny_chat, names=("tiny", "second", "gpt-*")) as started:
        yield started


def values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_what_was_done(fresh):
    body = {
        "messages": [{"role": "user", "content": SECRET * 3}],
        "max_tokens": 12,
        "temperature": 0,
        "ignore_eos": True,
    }
    with fresh.client() as client:
        answers = [client.post(CHAT, json=body).json() for _ in range(2)]
        client.post(CHAT, json=body | {"temperature": 9})
        found = values(client.get("/metrics").text)
    assert found[f'maglio_requests_total{{endpoint="{CHAT}",status="200"}}'] == 2
    assert found[f'maglio_requests_total{{endpoint="{CHAT}",status="400"}}'] == 1
    usages = [answer["usage"] for answer in answers]
    assert found["maglio_prompt_tokens_total"] == sum(u["prompt_tokens"] for u in usages)
    assert found["maglio_generated_tokens_total"] == 24
    assert found["maglio_cached_tokens_total"] == usages[1]["prompt_cache_hit_tokens"] > 0
    assert found["maglio_cache_hits_total"] == 1
    assert found["maglio_time_to_first_token_seconds_count"] == 2
    assert found["maglio_inter_token_seconds_count"] > 0
    assert found['maglio_generations_total{reason="length"}'] == 2
    drafted = sum(v for n, v in found.items() if n.startswith("maglio_draft_tokens_total{"))
    assert drafted == sum(answer["timings"]["draft_n"] for answer in answers)
    assert found["maglio_requests_running"] == found["maglio_requests_waiting"] == 0
    assert found["maglio_batch_width"] == 1
    assert "maglio_gate_trips_total" in found


def test_a_line_says_what_was_done_and_not_what_was_said(fresh):
    messages = [{"role": "user", "content": SECRET}]
    with fresh.client() as client:
        body = {"messages": messages, "max_tokens": 5, "ignore_eos": True}
        answer = client.post(CHAT, json=body)
        client.post(CHAT, json={"messages": messages, "max_tokens": 0.5})
        client.get("/nothing?" + SECRET)
    first, second, third = map(json.loads, fresh.log.getvalue().splitlines())
    assert SECRET not in fresh.log.getvalue()
    assert answer.json()["choices"][0]["message"]["content"] not in fresh.log.getvalue()
    assert first["id"] == answer.headers["x-request-id"]
    assert (first["status"], first["finish"], first["completion_tokens"]) == (200, "length", 5)
    assert first["first_token_ms"] <= first["ms"]
    assert (second["status"], second["error"]) == (400, "invalid_type")
    assert (third["path"], third["error"]) == ("/nothing", "unknown_url")


def test_a_path_cannot_write_lines_of_its_own():
    for kind in ("text", "json"):
        stream = io.StringIO()
        record = Record("GET", "/x\n2026 POST /forged status=200\x1b[31m")
        RequestLog(kind, stream).write(record)
        assert stream.getvalue().count("\n") == 1
        assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("kind", ["text", "json", "off"])
def test_where_an_error_came_from_is_always_told(kind):
    stream = io.StringIO()
    record = Record("GET", "/", trace="Traceback\nRuntimeError: the machine is on fire\n")
    RequestLog(kind, stream).write(record)
    assert "the machine is on fire" in stream.getvalue()
    assert record.id in stream.getvalue()
    RequestLog("off", stream := io.StringIO()).write(Record("GET", "/"))
    assert stream.getvalue() == ""


def test_the_models_are_the_names_that_can_be_listed(fresh):
    with fresh.client() as client:
        for path in ("/v1/models", "/models"):
            found = client.get(path).json()
            assert [model["id"] for model in found["data"]] == ["tiny", "second"]
        assert client.get("/v1/models/gpt-4o/mini").json()["id"] == "gpt-4o/mini"
        assert client.get("/v1/models/tiny.gguf").status_code == 200


def test_the_properties_state_the_limits(fresh):
    with fresh.client() as client:
        found = client.get("/props").json()
    assert found["default_generation_settings"]["n_ctx"] == fresh.model.engine.n_ctx
    assert found["default_generation_settings"]["params"]["temperature"] == 1.0
    assert found["total_slots"] == 4
    assert found["limits"] == limits.document() | {
        "queue": 64,
        "connections": 4 + 64 + limits.SPARE_CONNECTIONS,
        "max_tokens": 2**31 - 1,
    }
    assert "/" not in found["model_path"]


def test_the_fingerprint_is_that_of_the_model_and_of_nothing_else(tiny_chat, fresh, smollm):
    def fingerprint(server):
        with server.client() as client:
            return client.get("/props").json()["system_fingerprint"]

    with running(tiny_chat, parallel=2, names=("other",)) as other:
        assert fingerprint(other) == fingerprint(fresh)
    assert fingerprint(smollm) != fingerprint(fresh)

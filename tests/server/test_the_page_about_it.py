"""docs/server.md names every field, limit, code and path of the server."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from maglio.draft.past import DEFAULT_HISTORY_TOKENS
from maglio.grammar.compiler import MAX_KEPT, MAX_KEPT_SOURCE
from maglio.server import limits
from maglio.server.app import create_app
from maglio.server.schema.chat import ChatRequest
from maglio.server.schema.completion import CompletionRequest
from maglio.server.telemetry.request_log import RequestLog

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "server.md").read_text()
WORDS = set(re.findall(r"`([a-z_0-9.]+)`", PAGE))


@pytest.mark.parametrize("kind", [ChatRequest, CompletionRequest])
def test_every_field_is_named(kind):
    names = {*kind.model_fields, *kind.without_effect, *kind.refused}
    assert names - WORDS - {"mirostat_tau", "mirostat_eta", "dynatemp_exponent"} == set()


def test_every_code_is_named():
    sources = "".join(path.read_text() for path in (ROOT / "src/maglio/server").rglob("*.py"))
    codes = set(re.findall(r'code="([a-z_]+)"', sources))
    codes |= {"invalid_type", "unknown_url", "model_not_found"}
    assert codes - WORDS - {"not_found", "overloaded"} == set()


def test_every_metric_is_named(server):
    with server.client() as client:
        found = re.findall(r"^# TYPE (maglio_\w+) ", client.get("/metrics").text, re.MULTILINE)
    assert {name for name in found if not name.endswith("_created")} - WORDS == set()


def test_every_path_is_named(server):
    app = create_app(server.service, server.settings, RequestLog("off", io.StringIO()))
    for route in app.routes:
        if route.path.startswith("/page/"):
            continue  # files of the page in the browser
        path = re.sub(r"\{.*\}", "NAME", route.path).removeprefix("/v1")
        assert path in PAGE, path


def test_limits_are_as_stated():
    assert f"{limits.BODY_BYTES >> 20} MiB" in PAGE
    assert f"{limits.BODY_SECONDS:.0f} seconds" in PAGE
    assert f"{limits.KEEP_ALIVE_SECONDS:.0f} seconds" in PAGE
    assert f"{limits.BODY_DEPTH} deep" in PAGE
    one = " ".join(PAGE.split())
    assert f"and {limits.SPARE_CONNECTIONS} more" in one
    assert f"at most {limits.BODIES_BYTES >> 20} MiB together" in one
    assert f"{limits.LOG_LINES:,} lines are kept" in one
    assert f"by {DEFAULT_HISTORY_TOKENS:,} tokens" in one
    assert f"{MAX_KEPT} compiled grammars are kept, of {MAX_KEPT_SOURCE >> 20} MiB" in one
    stated = (
        f"{limits.CHOICES} choices (`n`)",
        f"{limits.PROMPTS} completions",
        f"{limits.STOPS} stop texts of {limits.STOP_CHARACTERS} characters",
        f"{limits.LOGPROBS} `top_logprobs`",
        f"{limits.BIASES:,} biases",
        f"{limits.TOOLS} tools",
        f"{limits.REFERENCES} `references` of {limits.REFERENCE_CHARACTERS >> 20} Mi characters "
        "in all",
        f"a schema or grammar of {limits.SCHEMA_BYTES >> 20} MiB",
    )
    assert ", ".join(stated) in one

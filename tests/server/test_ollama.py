"""What Ollama's clients ask before they chat."""

from __future__ import annotations

import httpx

from support.http_server import Running


def test_the_version_is_numbers(client: httpx.Client) -> None:
    version = client.get("/api/version").json()["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]  # what Copilot asks for


def test_the_model_is_listed_by_its_names(client: httpx.Client, server: Running) -> None:
    models = client.get("/api/tags").json()["models"]
    assert [model["name"] for model in models] == ["tiny"]
    assert server.model.path is not None
    assert models[0]["size"] == server.model.path.stat().st_size
    assert len(models[0]["digest"]) == 64


def test_show_tells_the_context_and_that_tools_can_be_called(
    client: httpx.Client, server: Running
) -> None:
    shown = client.post("/api/show", json={"model": "tiny"}).json()
    info = shown["model_info"]
    assert info["general.basename"] == "tiny"
    assert info[f"{info['general.architecture']}.context_length"] == server.model.engine.n_ctx
    assert {"completion", "tools"} <= set(shown["capabilities"])  # what Copilot asks for
    assert client.post("/api/show", json={"name": "tiny"}).json() == shown


def test_another_model_is_not_found(client: httpx.Client) -> None:
    answer = client.post("/api/show", json={"model": "llama3"})
    assert answer.status_code == 404
    assert "--alias" in answer.json()["error"]["message"]

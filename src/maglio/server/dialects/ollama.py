"""What Ollama's clients ask before they chat: ``/api/version``, ``/api/tags``, ``/api/show``.

Boundary: answers about the model. Such clients, VS Code's Copilot among them, then chat over
``/v1/chat/completions``.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any

from starlette.responses import Response

from maglio.server.endpoint import Call, document
from maglio.server.schema.ollama import ShowRequest
from maglio.server.state import ServerState

VERSION = "0.12.6"
"""The version of Ollama whose answers these are like. Clients refuse old ones, and words."""


async def version(call: Call) -> Response:
    """Which version of Ollama's API this is."""
    del call
    return document({"version": VERSION})


async def tags(call: Call) -> Response:
    """The names of the model."""
    state = call.state
    return document({"models": [_tag(name, state) for name in state.settings.listed]})


async def show(call: Call) -> Response:
    """What the model can."""
    body = await call.body(ShowRequest)
    state = call.state
    name = state.settings.name_of(body.model or body.name)
    architecture = state.model.engine.name
    return document(
        {
            "template": state.model.chat_template.sources["default"],
            "parameters": "",
            "details": _details(state),
            "model_info": {
                "general.architecture": architecture,
                "general.basename": name,
                f"{architecture}.context_length": state.model.engine.n_ctx,
            },
            "capabilities": ["completion", "tools"],  # every model can be told of tools
            "modified_at": _time(state),
        }
    )


def _tag(name: str, state: ServerState) -> dict[str, Any]:
    path = state.model.path
    return {
        "name": name,
        "model": name,
        "modified_at": _time(state),
        "size": 0 if path is None or not path.exists() else path.stat().st_size,
        "digest": hashlib.sha256(state.fingerprint.encode()).hexdigest(),
        "details": _details(state),
    }


def _details(state: ServerState) -> dict[str, Any]:
    family = state.model.engine.name
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": "",
    }


def _time(state: ServerState) -> str:
    return datetime.fromtimestamp(state.created, timezone.utc).isoformat()

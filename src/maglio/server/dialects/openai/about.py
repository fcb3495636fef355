"""What the server says of itself: models, health, properties, metrics.

Boundary: reads; changes nothing.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from maglio.server import limits
from maglio.server.endpoint import Call, document
from maglio.server.state import ServerState
from maglio.version import __version__

OWNER = "maglio"


async def models(call: Call) -> Response:
    """The names of the model."""
    state = call.state
    return document(
        {"object": "list", "data": [_model(name, state) for name in state.settings.listed]}
    )


async def model(call: Call) -> Response:
    """One name of the model."""
    name = call.state.settings.name_of(call.http.path_params["name"])
    return document(_model(name, call.state))


async def health(call: Call) -> Response:
    """Whether requests are taken."""
    del call
    return document({"status": "ok"})


async def props(call: Call) -> Response:
    """What the model and the server can, as llama.cpp's clients read it, and the limits."""
    state = call.state
    model, settings = state.model, state.settings
    sampling = settings.sampling
    return document(
        {
            "model_alias": settings.names[0],
            "model_path": model.name,
            "chat_template": model.chat_template.sources["default"],
            "bos_token": _name(model.tokenizer.bos_id, state),
            "eos_token": _name(model.tokenizer.eos_id, state),
            "total_slots": state.service.parallel,
            "modalities": {"vision": False, "audio": False},
            "build_info": f"maglio-{__version__}",
            "system_fingerprint": state.fingerprint,
            "default_generation_settings": {
                "n_ctx": model.engine.n_ctx,
                "params": {
                    "temperature": sampling.temperature,
                    "top_k": sampling.top_k,
                    "top_p": sampling.top_p,
                    "min_p": sampling.min_p,
                    "typical_p": sampling.typical_p,
                    "repeat_penalty": sampling.repeat_penalty,
                    "repeat_last_n": sampling.penalty_last_n,
                    "frequency_penalty": sampling.frequency_penalty,
                    "presence_penalty": sampling.presence_penalty,
                    "samplers": list(sampling.steps),
                },
            },
            "limits": {
                **limits.document(),
                "queue": state.service.queue,
                "connections": state.service.capacity + limits.SPARE_CONNECTIONS,
                "max_tokens": settings.max_tokens,
            },
        }
    )


async def metrics(call: Call) -> Response:
    """Counts and times, for Prometheus."""
    return Response(
        call.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


def _model(name: str, state: ServerState) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": state.created,
        "owned_by": OWNER,
        "meta": {
            "n_vocab": state.model.engine.n_vocab,
            "n_ctx": state.model.engine.n_ctx,
        },
    }


def _name(token: int | None, state: ServerState) -> str:
    tokenizer = state.model.tokenizer
    return "" if token is None else tokenizer.token_bytes(token).decode("utf-8", "replace")

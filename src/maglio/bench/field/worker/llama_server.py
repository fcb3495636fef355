"""llama.cpp's own server, from the package ``xllamacpp``, in this process.

It is asked over HTTP, and times itself: what HTTP costs is not counted against it.
"""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import xllamacpp

from .message import Answer, Request, Setup

_TYPE = "COMMON_SPECULATIVE_TYPE_"


def open_contestant(setup: Setup) -> LlamaServer:
    """Load the model and start the server."""
    return LlamaServer(setup)


class LlamaServer:
    """A server with one slot. The settings are names in ``CommonParams``, with dots between."""

    def __init__(self, setup: Setup) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = setup.model
        params.n_parallel, params.n_ctx = 1, setup.n_ctx
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setup.threads
        params.hostnames, params.port = ["127.0.0.1"], 0
        params.verbosity = -1
        params.cache_prompt, params.cache_ram_mib = False, 0
        for name, value in setup.settings.items():
            _set(params, name, value)
        self._server = xllamacpp.Server(params)
        self._address = urlsplit(self._server.listening_address).netloc

    def answer(self, request: Request) -> Answer:
        """Answer one prompt, which is computed anew each time."""
        body: dict[str, Any] = {
            "prompt": list(request.prompt),
            "n_predict": request.max_tokens,
            "samplers": ["temperature"],
            "temperature": request.temperature,
            "seed": request.seed,
            "cache_prompt": False,
            "return_tokens": True,
        }
        if request.schema is not None:
            body["json_schema"] = dict(request.schema)
        found = self._post(body)
        timings = found["timings"]
        tokens, accepted = found["tokens"], timings.get("draft_n_accepted", 0)
        return Answer(
            tokens=tokens,
            first_token_s=timings["prompt_ms"] / 1e3,
            decode_s=timings["predicted_ms"] / 1e3,
            steps=max(0, len(tokens) - 1 - accepted),
            drafted=timings.get("draft_n", 0),
            accepted=accepted,
        )

    def _post(self, body: dict[str, Any]) -> Any:  # noqa: ANN401  # whatever JSON holds
        connection = http.client.HTTPConnection(self._address)
        try:
            connection.request(
                "POST", "/completion", json.dumps(body), {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"the server answered {response.status}: {text}")
        return json.loads(text)


def _set(params: Any, name: str, value: Any) -> None:  # noqa: ANN401  # as the package has it
    *parents, last = name.split(".")
    for parent in parents:
        params = getattr(params, parent)
    if last == "types":
        kinds = xllamacpp.common_speculative_type
        value = [getattr(kinds, _TYPE + kind.upper().replace("-", "_")) for kind in value]
    elif not hasattr(params, last):
        raise AttributeError(f"{type(params).__name__} of xllamacpp has no {last!r}")
    setattr(params, last, value)

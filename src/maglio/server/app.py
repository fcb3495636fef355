"""The web application: every endpoint at its paths, and what all requests pass.

Boundary: puts parts together; serves nothing by itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from maglio.server.dialects.anthropic.endpoint import PREFIX, count_tokens, messages
from maglio.server.dialects.anthropic.errors import anthropic_error
from maglio.server.dialects.llama.completion import completion, either_completion
from maglio.server.dialects.llama.tokens import detokenize, tokenize
from maglio.server.dialects.ollama import show, tags, version
from maglio.server.dialects.openai.about import health, metrics, model, models, props
from maglio.server.dialects.openai.chat import chat_completions
from maglio.server.dialects.openai.completions import completions
from maglio.server.dialects.responses.endpoint import responses, stored_response
from maglio.server.endpoint import WriteError, openai_error, routes
from maglio.server.errors import ApiError, not_found
from maglio.server.gate import Gate
from maglio.server.http.failure import told
from maglio.server.page import routes as page_routes
from maglio.server.settings import Settings
from maglio.server.state import ServerState
from maglio.server.streams.service import Service
from maglio.server.telemetry.request_log import RequestLog

_SHOWN = 100
_GET, _POST = ("GET",), ("POST",)


def create_app(service: Service, settings: Settings, log: RequestLog) -> Starlette:
    """The application that serves a model.

    Args:
        service: runs requests on it. It is not closed with the application.
        settings: how to answer.
        log: where requests are written to.
    """
    state = ServerState(service, settings, log)
    page = page_routes()
    open_paths = frozenset(route.path for route in page)
    middleware = [Middleware(Gate, state=state, write_errors=_write_errors, open_paths=open_paths)]
    if settings.origins.allowed:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.origins.allowed,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )
        middleware.insert(0, cors)
    app = Starlette(
        routes=[*page, *_routes(state)],
        middleware=middleware,
        exception_handlers={HTTPException: _no_route, Exception: _failed},
    )
    app.router.redirect_slashes = False
    return app


def _routes(state: ServerState) -> Sequence[BaseRoute]:
    return [
        *routes(
            state, chat_completions, ("/v1/chat/completions", "/chat/completions"), methods=_POST
        ),
        *routes(state, completions, ("/v1/completions",), methods=_POST),
        *routes(state, either_completion, ("/completions",), methods=_POST),
        *routes(state, completion, ("/completion",), methods=_POST),
        *routes(state, responses, ("/v1/responses", "/responses"), methods=_POST),
        *routes(state, stored_response, ("/v1/responses/{name}",), methods=("GET", "DELETE")),
        *routes(state, messages, (PREFIX,), methods=_POST, write_error=anthropic_error),
        *routes(
            state,
            count_tokens,
            (f"{PREFIX}/count_tokens",),
            methods=_POST,
            write_error=anthropic_error,
        ),
        *routes(state, models, ("/v1/models", "/models"), methods=_GET),
        *routes(state, model, ("/v1/models/{name:path}", "/models/{name:path}"), methods=_GET),
        *routes(state, version, ("/api/version",), methods=_GET),
        *routes(state, tags, ("/api/tags",), methods=_GET),
        *routes(state, show, ("/api/show",), methods=_POST),
        *routes(state, health, ("/health", "/v1/health"), methods=_GET),
        *routes(state, props, ("/props",), methods=_GET),
        *routes(state, metrics, ("/metrics",), methods=_GET),
        *routes(state, tokenize, ("/tokenize", "/v1/tokenize"), methods=_POST),
        *routes(state, detokenize, ("/detokenize", "/v1/detokenize"), methods=_POST),
    ]


async def _no_route(request: Request, error: Exception) -> Response:
    """A path or a method that is not there."""
    asked = f"{request.method} {request.url.path[:_SHOWN]}"
    if isinstance(error, HTTPException) and error.status_code == 405:
        headers = error.headers or {}
        return await _failed(
            request,
            ApiError(
                f"{asked} is not allowed; use {headers.get('Allow', 'another method')}",
                status=405,
                code="method_not_allowed",
                headers=headers,
            ),
        )
    paths = [route.path for route in request.app.routes]
    near = difflib.get_close_matches(request.url.path[:_SHOWN], paths, 1, 0.75)
    hint = f". Did you mean {near[0]}?" if near else ""
    return await _failed(request, not_found(f"Invalid URL ({asked}){hint}", code="unknown_url"))


async def _failed(request: Request, error: Exception) -> Response:
    return _write_errors(request.url.path)(told(error, request.state.record))


def _write_errors(path: str) -> WriteError:
    """How errors at a path are written."""
    return anthropic_error if path.startswith(PREFIX) else openai_error

"""The web application: every endpoint at its paths, and what all requests pass.

Boundary: puts parts together; serves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from maglio.server.anthropic.endpoint import PREFIX, count_tokens, messages
from maglio.server.anthropic.errors import anthropic_error
from maglio.server.api.about import health, metrics, model, models, props
from maglio.server.api.chat import chat_completions
from maglio.server.api.completions import completions
from maglio.server.api.llama import completion, either_completion
from maglio.server.api.ollama import show, tags, version
from maglio.server.api.tokens import detokenize, tokenize
from maglio.server.endpoint import WriteError, openai_error, routes
from maglio.server.errors import ApiError
from maglio.server.gate import Gate
from maglio.server.page import routes as page_routes
from maglio.server.request_log import RequestLog
from maglio.server.responses.endpoint import responses, stored_response
from maglio.server.service import Service
from maglio.server.settings import Settings
from maglio.server.state import ServerState
from maglio.server.telling import told

_GET, _POST = ("GET",), ("POST",)


def create_app(service: Service, settings: Settings, log: RequestLog | None = None) -> Starlette:
    """The application that serves a model.

    Args:
        service: runs requests on it. It is not closed with the application.
        settings: how to answer.
        log: where requests are written to; standard error when ``None``.
    """
    state = ServerState(service, settings, RequestLog() if log is None else log)
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
    status = error.status_code if isinstance(error, HTTPException) else 404
    api_error = ApiError(
        f"Invalid URL ({request.method} {request.url.path:.200})",
        status=status,
        code="method_not_allowed" if status == 405 else "unknown_url",
        headers=getattr(error, "headers", None),
    )
    return await _failed(request, api_error)


async def _failed(request: Request, error: Exception) -> Response:
    return _write_errors(request.url.path)(told(error, request.state.record))


def _write_errors(path: str) -> WriteError:
    """How errors at a path are written."""
    return anthropic_error if path.startswith(PREFIX) else openai_error

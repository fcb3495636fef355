"""Serving an application on a socket, until it is told to stop.

Boundary: sockets, signals and the end; knows no endpoint. The first SIGINT or SIGTERM lets streams
finish within a stated time, the second ends the process at once.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
import uvloop
from starlette.types import ASGIApp

from maglio.errors import InvalidArgumentError, MaglioError
from maglio.server import limits
from maglio.server.access.origin import is_loopback
from maglio.server.http.connection import bounded
from maglio.server.streams.service import Service

_BACKLOG = 512
_IDLE_SECONDS = 75
_MARGIN_SECONDS = 5.0  # for what ends at the end of the grace to be told
_OTHER_FILES = 256  # that a process has open besides connections


def open_socket(host: str, port: int) -> socket.socket:
    """Bind an address, so that it is known to be free before a model is loaded.

    Raises:
        InvalidArgumentError: there is no such address.
        MaglioError: it cannot be had.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InvalidArgumentError(f"--host is {host!r:.100}: {error.strerror or error}") from None
    family, _, _, _, address = found[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise MaglioError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address "
            "with --host and --port"
        ) from None
    return bound


def url_of(bound: socket.socket) -> str:
    """The address of a socket, for people and programs on this machine."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_private(bound: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return is_loopback(str(bound.getsockname()[0]))


class Server(uvicorn.Server):
    """Serves an application, and closes its service in the end.

    Args:
        app: the application.
        service: what it runs requests on.
        grace: seconds that requests get to finish.
        on_start: called when clients can connect.
        on_stop: called when the first signal has come.

    Attributes:
        most_connections: how many may be open.
        stopped_by: the first signal that came.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        *,
        grace: float,
        on_start: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.most_connections = service.capacity + limits.SPARE_CONNECTIONS
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded(self.most_connections),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                ws="none",
                backlog=_BACKLOG,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=int(grace + _MARGIN_SECONDS),
            )
        )
        self.stopped_by: int | None = None
        self._service = service
        self._grace = grace
        self._on_start = on_start
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        del frame
        self.stopped_by = sig
        self.should_exit = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._on_stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing more, and finish what runs; what does not is told so."""
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(None, lambda: self._service.close(grace=self._grace))
        await super().shutdown(sockets)
        await closing


def serve(server: Server, bound: socket.socket) -> int | None:
    """Serve until a signal comes; return which one."""
    _allow_files(2 * server.most_connections + _OTHER_FILES)
    try:
        uvloop.run(server.serve(sockets=[bound]))
    finally:
        bound.close()
    return server.stopped_by


def _allow_files(n: int) -> None:
    """Let this process open so many files, as far as the system lets it decide."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n if hard == resource.RLIM_INFINITY else min(n, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

"""Which web pages may talk to the server: none, unless the operator names them.

Boundary: two checks of headers. A page of another site can make a browser send requests to this
machine; its ``Origin`` tells. A site whose name is made to point at this machine (DNS rebinding) is
its own origin; the ``Host`` that it is called by tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from maglio.errors import InvalidArgumentError
from maglio.server.errors import ApiError

ANY = "*"


class Origins:
    """Tells requests that other sites made a browser send.

    Args:
        allowed: origins of pages that may talk to the server; ``*`` is any.
        hosts: names that the server may be called by. ``None``: not checked, as for a server that
            is there for other machines.

    Raises:
        InvalidArgumentError: an origin is not one.
    """

    def __init__(self, allowed: Iterable[str] = (), hosts: Iterable[str] | None = None) -> None:
        self.allowed = tuple(allowed)
        for origin in self.allowed:
            if origin != ANY and not _is_origin(origin):
                raise InvalidArgumentError(
                    f"--cors is {origin!r:.100}, must be an origin such as https://example.com, "
                    "or *"
                )
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    def check(self, connection: HTTPConnection) -> None:
        """Raise :class:`ApiError` for a request of a page that may not talk to the server."""
        host = connection.headers.get("host", "")
        if self._hosts is not None and not self._is_mine(_name(host)):
            raise ApiError(
                f"this server is called {host!r:.100}, which is not its name; if it is, start it "
                "with --allow-host NAME",
                status=403,
                code="host_not_allowed",
            )
        origin = connection.headers.get("origin")
        if origin is None or ANY in self.allowed or origin in self.allowed:
            return
        if not _is_origin(origin) or urlsplit(origin).netloc != host:
            raise ApiError(
                f"pages of {origin!r:.100} may not use this server; to allow it, start it with "
                f"--cors {origin:.100}",
                status=403,
                code="origin_not_allowed",
            )

    def _is_mine(self, name: str) -> bool:
        if name in (self._hosts or ()) or name == "localhost" or name.endswith(".localhost"):
            return True
        return is_loopback(name)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, to itself only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:  # of a host in brackets that is not one
        return False
    return bool(parts.scheme and parts.netloc and not parts.path)


def _name(host: str) -> str:
    """A host without its port."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.partition(":")[0]

"""Who asks: API keys, and the name under which what belongs to a key is kept apart.

Boundary: from headers to a tenant. Keys are compared in constant time, and only their digests are
kept.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from starlette.requests import HTTPConnection

from maglio.errors import InvalidArgumentError
from maglio.server.errors import ApiError

PUBLIC = "public"
"""The tenant of all requests to a server without keys."""
_MAX_KEY = 512


class Keys:
    """The keys that are accepted; none: everybody may ask.

    Args:
        keys: the keys.

    Raises:
        InvalidArgumentError: a key is empty, too long, or cannot be in a header.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        keys = list(keys)
        for key in keys:
            if not key.isascii() or not key.isprintable() or not 0 < len(key.strip()) <= _MAX_KEY:
                raise InvalidArgumentError(
                    f"an API key is empty, longer than {_MAX_KEY} characters, or has others than "
                    "printable ASCII ones"
                )
        self._digests = tuple(map(_digest, keys))

    def __bool__(self) -> bool:
        """Whether a key is needed."""
        return bool(self._digests)

    def tenant(self, connection: HTTPConnection) -> str:
        """Who asks.

        Raises:
            ApiError: a key is needed, and there is none, or a wrong one.
        """
        if not self._digests:
            return PUBLIC
        given = _key(connection)
        if given is None:
            raise _unauthorized(
                "You didn't provide an API key; send the header "
                '"Authorization: Bearer KEY" with a key of this server (--api-key)'
            )
        digest = _digest(given)
        known = [hmac.compare_digest(digest, one) for one in self._digests]  # all of them
        if not any(known):
            raise _unauthorized("Incorrect API key provided; it is not one of this server's")
        return digest.hex()[:32]


def _key(connection: HTTPConnection) -> str | None:
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return connection.headers.get("x-api-key")  # Anthropic's header


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.strip().encode()).digest()


def _unauthorized(message: str) -> ApiError:
    return ApiError(
        message,
        status=401,
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )

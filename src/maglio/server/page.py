"""The page at ``/``: a chat in the browser, from files of the package.

Boundary: serves fixed files, and knows no model. What the page does, it asks of the endpoints, as
any client would; so its files need no API key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
"""Only files of this server, no inline script or style, and no text may become markup."""

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser may keep a file, and asks each time if it is current
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page.

    Attributes:
        content: its bytes.
        media_type: what they are.
        tag: changes when they do.
    """

    content: bytes
    media_type: str
    tag: str

    def response(self, known_tags: str) -> Response:
        """Answer a request that names the tags that the browser has."""
        headers = {**HEADERS, "ETag": self.tag}
        if self.tag in known_tags:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def routes() -> list[Route]:
    """The routes of the page: ``/``, and ``/page/NAME`` for its other files."""
    found = page_files()
    index = found.pop("index.html")
    return [_route("/", index), *(_route(f"/page/{name}", found[name]) for name in sorted(found))]


def page_files() -> dict[str, PageFile]:
    """The files of the page by their names."""
    folder = files("maglio.server") / "page"
    return {
        entry.name: _page_file(entry.name, entry.read_bytes())
        for entry in folder.iterdir()
        if entry.is_file()
    }


def _page_file(name: str, content: bytes) -> PageFile:
    suffix = name[name.rindex(".") :]
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return PageFile(content, MEDIA_TYPES[suffix], tag)


def _route(path: str, file: PageFile) -> Route:
    async def answer(request: Request) -> Response:
        return file.response(request.headers.get("if-none-match", ""))

    return Route(path, answer, methods=["GET"])

"""A stand-in of the hub's HTTP API on this machine: what huggingface_hub asks for, and no more.

Boundary: listing a repository, HEAD and GET of its files with ranges, tokens and errors. Written
from the headers that the client reads; knows nothing of Maglio.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c" * 40


@dataclass
class Repo:
    """What is in a repository.

    Attributes:
        files: contents by name.
        token: who may read it; anybody if it is empty.
        gated: whether those who may not are told so.
        cuts: after how many bytes the next answers with contents are cut off.
        corrupt: contents that are sent instead of the announced ones, of the same length.
        status: of every answer, if it is not 200.
    """

    files: dict[str, bytes]
    token: str = ""
    gated: bool = False
    cuts: list[int] = field(default_factory=list)
    corrupt: dict[str, bytes] = field(default_factory=dict)
    status: int = 200


@dataclass
class Hub:
    """A server, and what it was asked for: method, path and the range, if any."""

    repos: dict[str, Repo]
    url: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def ranges(self) -> list[str]:
        """The ranges of contents that were asked for; empty for a whole file."""
        return [
            given for method, path, given in self.asked if method == "GET" and "/resolve/" in path
        ]


@contextmanager
def running_hub(**repos: Repo) -> Iterator[Hub]:
    """Serve repositories; ``owner__name`` is ``owner/name``."""
    hub = Hub({name.replace("__", "/"): repo for name, repo in repos.items()})
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.hub.asked.append((self.command, path, self.headers.get("Range", "")))
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/main", path)
        contents = re.fullmatch(rf"/([^/]+/[^/]+)/resolve/(?:main|{COMMIT})/(.+)", path)
        found = listing or contents
        repo = self.hub.repos.get(found[1]) if found else None
        if repo is None:
            self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif repo.status != 200:
            self._send(repo.status, b"", {})
        elif repo.token and self.headers.get("Authorization") != f"Bearer {repo.token}":
            code = "GatedRepo" if repo.gated else "RepoNotFound"
            self._send(403 if repo.gated else 401, b"", {"X-Error-Code": code})
        elif listing:
            siblings = [{"rfilename": name} for name in repo.files]
            document = {"id": found[1], "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})
        else:
            self._file(repo, found[2])

    def _file(self, repo: Repo, name: str) -> None:
        data = repo.files.get(name)
        if data is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        headers = {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
            "X-Linked-Size": str(len(data)),
            "ETag": '"of-the-pointer"',
            "Accept-Ranges": "bytes",
        }
        sent = repo.corrupt.get(name, data)
        given = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if given:
            begin = int(given[1])
            headers["Content-Range"] = f"bytes {begin}-{len(sent) - 1}/{len(sent)}"
            self._send(206, sent[begin:], headers, repo)
        else:
            self._send(200, sent, headers, repo)

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], repo: Repo | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if repo is not None and repo.cuts:
            self.wfile.write(body[: repo.cuts.pop(0)])
            self.close_connection = True
            return
        self.wfile.write(body)

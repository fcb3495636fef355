"""One HTTP request as the log and the metrics see it: counts and times, and never its text.

Boundary: filled by whoever serves the request; written by
:mod:`maglio.server.telemetry.request_log`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from time import perf_counter

from maglio.server.telemetry.usage import Usage


@dataclass(slots=True, eq=False)
class Record:
    """What is known of a request so far.

    Attributes:
        method: of HTTP,
        path: and the path.
        id: a name for this request, which is in the response's header too.
        endpoint: the path of the endpoint that serves it; empty if there is none.
        tenant: whose it is; empty while that is not known, and where it does not matter.
        status: of the response; 0 while there is none.
        error: the code of the error it was answered with,
        trace: and where it came from, if nobody expected it.
        body_bytes: of its body that were read.
        streamed: whether the answer is a stream.
        usage: what was generated.
        reasons: why each choice ended.
        first_token_s: seconds until the first token.
        left: whether the client went away first.
        began_at: when it arrived.
    """

    method: str
    path: str
    id: str = field(default_factory=lambda: f"req_{secrets.token_hex(12)}")
    endpoint: str = ""
    tenant: str = ""
    status: int = 0
    error: str = ""
    trace: str = ""
    body_bytes: int = 0
    streamed: bool = False
    usage: list[Usage] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    first_token_s: float | None = None
    left: bool = False
    began_at: float = field(default_factory=perf_counter)

    @property
    def seconds(self) -> float:
        """Since it arrived."""
        return perf_counter() - self.began_at

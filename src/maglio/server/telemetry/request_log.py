"""A line for each request, without its text.

Boundary: from records to lines.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Literal, Protocol

from maglio.server.telemetry.record import Record
from maglio.server.telemetry.usage import Usage

Format = Literal["text", "json", "off"]
_SHOWN = 200


class Writer(Protocol):
    """Takes texts, and returns at once, as :mod:`maglio.server.telemetry.log_writer` does."""

    def write(self, text: str, /) -> object:
        """Take a text."""
        ...


class RequestLog:
    """Writes a line for each request that has ended.

    Args:
        kind: ``text``: words for people; ``json``: an object a line; ``off``: nothing but where an
            error came from that nobody expected, which the others have too.
        writer: takes the lines.
    """

    def __init__(self, kind: Format, writer: Writer) -> None:
        self._kind = kind
        self._writer = writer

    def write(self, record: Record) -> None:
        """Write the line of a request."""
        fields = _fields(record)
        if self._kind == "json":
            trace = {"trace": record.trace} if record.trace else {}
            self._writer.write(json.dumps(fields | trace) + "\n")
        elif self._kind == "text" or record.trace:
            self._writer.write(f"{_words(fields)}\n{record.trace}")


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "id": record.id,
        "method": record.method,
        "path": record.path[:_SHOWN],
        "status": record.status,
        "ms": round(1e3 * record.seconds, 1),
    }
    if record.error:
        fields["error"] = record.error
    if record.left:
        fields["left"] = True
    if record.tenant:
        fields["tenant"] = record.tenant[:8]
    if record.usage:
        usage = Usage.of_one_prompt(record.usage)
        fields |= {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "drafted": usage.drafted,
            "accepted": usage.accepted,
            "finish": ",".join(record.reasons),
        }
    if record.first_token_s is not None:
        fields["first_token_ms"] = round(1e3 * record.first_token_s, 1)
    return fields


def _words(fields: dict[str, Any]) -> str:
    first = " ".join(str(fields.pop(name)) for name in ("time", "method"))
    path = json.dumps(fields.pop("path"))[1:-1]  # a path may hold anything, a line must not
    rest = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"{first} {path} {rest}"

"""The server's limits on one request and on all. docs/server.md and ``/props`` state them.

Boundary: numbers. What the operator chooses (``--parallel``, ``--queue``, ``--max-tokens``) is in
:mod:`maglio.server.settings`.
"""

from __future__ import annotations

HEAD_BYTES = 64 << 10
"""Longest head of a request: its address and its headers; and what follows a body in pieces."""
HEAD_SECONDS = 30.0
"""Time in which a head must have arrived, from when the connection is opened."""
BODY_BYTES = 16 << 20
"""Longest body of a request."""
BODY_SECONDS = 60.0
"""Time in which a body must have arrived."""
BODY_DEPTH = 200
"""Lists and objects within each other in a body, where the JSON reader stops."""
BODIES_BYTES = 512 << 20
"""All bodies together, of requests that are being read or answered."""
SPARE_CONNECTIONS = 240
"""Connections at a time, besides those of all requests that may run and wait."""
LOG_LINES = 1000
"""Most lines of the log that wait for a standard error that takes none."""
KEEP_ALIVE_SECONDS = 10.0
"""A stream in which nothing was sent for so long gets a comment, so that no proxy closes it."""
CHOICES = 16
"""Largest ``n``."""
PROMPTS = 64
"""Most prompts of one request to ``/v1/completions``; times ``n`` too."""
STOPS = 16
"""Most stop texts."""
STOP_CHARACTERS = 256
"""Longest stop text."""
LOGPROBS = 20
"""Most alternatives per token."""
BIASES = 1024
"""Most tokens in ``logit_bias``."""
TOOLS = 512
"""Most tools."""
BREAKERS = 16
"""Most texts in ``dry_sequence_breakers``."""
BREAKER_CHARACTERS = 64
"""Longest of them."""
REFERENCES = 16
"""Most texts to draft from."""
REFERENCE_CHARACTERS = 4 << 20
"""Their length, all together."""
SCHEMA_BYTES = 1 << 20
"""Longest grammar or JSON schema, as text."""
CUSTOM_ID_CHARACTERS = 512
"""Longest ``custom_id`` of a line of a batch."""


def document() -> dict[str, float]:
    """All of them, by name."""
    return {
        "head_bytes": HEAD_BYTES,
        "head_seconds": HEAD_SECONDS,
        "body_bytes": BODY_BYTES,
        "body_seconds": BODY_SECONDS,
        "bodies_bytes": BODIES_BYTES,
        "keep_alive_seconds": KEEP_ALIVE_SECONDS,
        "n": CHOICES,
        "prompts": PROMPTS,
        "stop": STOPS,
        "stop_characters": STOP_CHARACTERS,
        "top_logprobs": LOGPROBS,
        "logit_bias": BIASES,
        "tools": TOOLS,
        "dry_sequence_breakers": BREAKERS,
        "references": REFERENCES,
        "reference_characters": REFERENCE_CHARACTERS,
        "schema_bytes": SCHEMA_BYTES,
    }

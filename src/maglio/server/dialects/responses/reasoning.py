"""Thinking that goes to a client and comes back.

Boundary: one field. OpenAI sends thinking encrypted, and clients such as Codex send back nothing
else of it; so the text goes into that field too. It is not secret, and is read as any other input.
"""

from __future__ import annotations

import base64

_MARK = "maglio:"


def packed(text: str) -> str:
    """Thinking as ``encrypted_content``."""
    return _MARK + base64.b64encode(text.encode()).decode()


def unpacked(content: str) -> str:
    """The thinking in an ``encrypted_content``; none if another server wrote it."""
    if not content.startswith(_MARK):
        return ""
    try:
        return base64.b64decode(content[len(_MARK) :], validate=True).decode()
    except ValueError:  # is not Base64, or not of a text
        return ""

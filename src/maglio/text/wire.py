"""Messages between the library and its renderer process: JSON after its length in eight bytes.

Boundary: bytes and back; imports nothing of ours, since both sides load it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

LENGTH = struct.Struct("<Q")


def packed(message: dict[str, Any]) -> bytes:
    """Return the bytes of a message."""
    # Texts may hold lone surrogates, which stand for bytes that are not valid UTF-8.
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(data)) + data


def unpacked(data: bytes) -> dict[str, Any]:
    """Return the message in the bytes after the length; an empty one if they hold none."""
    try:
        message = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}

"""Bytes and code points, as llama.cpp reads them. Knows nothing of tokens."""

from __future__ import annotations

import codecs
import re

from maglio.errors import InvalidArgumentError

MAX_BYTES = 1 << 30

# Sequences of the right shape; their values may be overlong or surrogates.
_SHAPED = re.compile(rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")
_ERRORS = "maglio.shaped"


def to_bytes(text: str | bytes) -> bytes:
    """Return the bytes of a text to encode.

    Surrogates that stand for undecodable bytes (``errors="surrogateescape"``) become those
    bytes again. Raises :class:`InvalidArgumentError` for any other lone surrogate and for a text
    over 1 GiB.
    """
    if isinstance(text, str):
        try:
            text = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"text has the lone surrogate U+{ord(error.object[error.start]):04X} at index "
                f"{error.start}, which no byte sequence stands for; replace it, or pass bytes"
            ) from None
    if len(text) > MAX_BYTES:
        raise InvalidArgumentError(
            f"text has {len(text)} bytes; at most {MAX_BYTES} (1 GiB) can be encoded at once"
        )
    return bytes(text)


def to_code_points(data: bytes) -> str:
    """Decode the way llama.cpp does (``unicode_cpts_from_utf8``).

    Sequences of the right shape count even if overlong or a surrogate (which the result then
    holds); every other byte becomes U+FFFD. So does each byte of a sequence beyond U+10FFFF,
    where llama.cpp gives up.
    """
    return data.decode("utf-8", _ERRORS)


def _resolve(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    match = _SHAPED.match(error.object, error.start)
    if match is not None:
        lead, *rest = match.group()
        value = lead & (0x7F >> (len(rest) + 1))
        for byte in rest:
            value = value << 6 | byte & 0x3F
        if value <= 0x10FFFF:
            return chr(value), match.end()
    return "\ufffd", error.start + 1


codecs.register_error(_ERRORS, _resolve)

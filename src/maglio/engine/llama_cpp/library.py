"""The library llama.cpp, as the package llama-cpp-python brings it.

Boundary: imports the package, keeps what the library logs, and names its numbers. Knows no model.

The library logs to stderr by default. Here its errors are kept for the messages of ours, and all
else is dropped; this holds for the whole process.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque

import llama_cpp

CACHE_TYPES = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "bf16": 30,  # which the package does not name
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
}
"""Data types of keys and values by name."""

FLASH_ATTENTION = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
}
"""Whether scores are kept whole, by name."""

SPLIT_MODES = {
    "none": llama_cpp.LLAMA_SPLIT_MODE_NONE,
    "layer": llama_cpp.LLAMA_SPLIT_MODE_LAYER,
    "row": llama_cpp.LLAMA_SPLIT_MODE_ROW,
    "tensor": llama_cpp.LLAMA_SPLIT_MODE_TENSOR,
}
"""How a model is shared by several GPUs, by name."""

_TILED = "GGML_CPU_TILED_MM"
_ERROR, _CONTINUED = 4, 5
_MAX_LINES = 8


class _Log(threading.local):
    """What the library said last in this thread."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_MAX_LINES)
        self.is_kept = False


_log = _Log()


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep(level: int, text: bytes, _data: ctypes.c_void_p) -> None:
    if level != _CONTINUED:
        _log.is_kept = level == _ERROR
    line = text.decode("utf-8", "replace").strip()
    if _log.is_kept and line:
        _log.lines.append(line)


def start() -> None:
    """Start the library, and keep what it says; harmless when it runs."""
    llama_cpp.llama_backend_init()
    llama_cpp.llama_log_set(_keep, ctypes.c_void_p(0))
    forget()


def forget() -> None:
    """Keep what it says in this thread from now on."""
    _log.lines.clear()


def said() -> str:
    """Its errors in this thread since it was asked to forget."""
    lines = list(_log.lines)
    forget()
    return "; ".join(lines) if lines else "it does not say why"


def has_two_products() -> bool:
    """Whether this build has other matrix products for two rows and more than for one."""
    return b"LLAMAFILE = 1" in llama_cpp.llama_print_system_info()


def prefer_exact_products() -> None:
    """Have products of matrices not depend on how many rows there are, where that is a setting.

    The library reads it once, at its first product. It then holds for the whole process, and for
    its children.
    """
    os.environ.setdefault(_TILED, "0")

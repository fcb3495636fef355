"""What the C library does with large blocks of memory that are freed.

Boundary: one setting of this process; nothing where the C library has no such setting.
"""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1 << 20


def return_large_blocks() -> None:
    """Give blocks of a megabyte and more back to the system when they are freed.

    glibc does so only until the first of them is freed; later ones come from its heap, where small
    blocks above them keep them. Long bodies of requests then stay in memory, though they are gone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)

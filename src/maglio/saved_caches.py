"""Caches on disk, so that a program that starts again goes on where it was.

Boundary: which file it is, whether it is ours, and what is said when it cannot be used; what is in
it is the engine's matter. What a cache holds can be turned back into what was said, so the file is
readable by its owner only.
"""

from __future__ import annotations

import os
import shutil
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path

from maglio.engine.base import CacheSaver, SavedCache
from maglio.errors import CacheFileError
from maglio.files import open_regular, replacing

_SPARE_BYTES = 1 << 30
"""Room that is left on the disk."""


def save_caches(
    folder: Path, engine: CacheSaver, caches: Sequence[SavedCache], n_bytes: int
) -> None:
    """Replace the file of an engine in ``folder``, which is made if it is not there.

    Args:
        folder: where it is.
        engine: of the caches.
        caches: to be saved.
        n_bytes: about how many they take.

    Raises:
        CacheFileError: it cannot be written; the former one is as it was.
    """
    path = folder / engine.cache_file
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < n_bytes + _SPARE_BYTES:
            raise CacheFileError(
                f"they have {n_bytes / 1e9:.1f} GB and {free / 1e9:.1f} GB are free on the disk"
            )
        with replacing(path) as file:
            os.fchmod(file.fileno(), 0o600)  # it may replace a file of another mode
            engine.write_caches(caches, file.fileno())
    except (OSError, CacheFileError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CacheFileError(
            f"the caches cannot be saved in {path}: {reason}; free some room there or choose "
            "another folder"
        ) from error


def load_caches(folder: Path, engine: CacheSaver, max_bytes: int) -> list[SavedCache]:
    """Read the file of an engine in ``folder``.

    Returns:
        As many caches as take at most ``max_bytes``; none where there is no file, or, with a
        warning that says why, none that can be used.
    """
    path = folder / engine.cache_file
    try:
        with open_regular(path) as file:
            _check_private(os.fstat(file.fileno()))
            return engine.read_caches(file.fileno(), max_bytes)
    except FileNotFoundError:
        return []
    except (OSError, CacheFileError) as error:
        reason = getattr(error, "strerror", None) or error
        warnings.warn(
            f"the caches in {path} are not used: {reason}; prompts are computed as if they were "
            "new, and the file is replaced when caches are saved",
            RuntimeWarning,
            stacklevel=3,
        )
        return []


def _check_private(status: os.stat_result) -> None:
    """Whoever can write to the file decides what the model says."""
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise OSError("others may write to it")

"""Repacked weights on disk, so that the next load of a model maps them.

Boundary: which file it is, whether it is ours, which are removed to make room for another, and what
is said when it cannot be used; what is in it is the core's matter (``csrc/engine/kept_weights.h``).
It is a copy that can be made again at any time, so nothing that is wrong with it stops a load.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from weakref import ref

from platformdirs import user_cache_path

from maglio import _core
from maglio.files import open_regular, replacing

MOST_BYTES = 100 * 10**9
"""Of all files together. The ones that were not used for the longest time go first."""

_SPARE_BYTES = 1 << 30
"""Room that is left on the disk."""

_SUFFIX = ".weights"

_mapped: list[tuple[ref[_core.Model], Path]] = []
"""Where the weights of this process's models are: removing such a file would free nothing."""
_mapping = Lock()
"""Held while a file is mapped and noted, and while files that are not are removed: several threads
may load."""


def _renew_lock() -> None:
    """In a forked process: whoever held it is not there."""
    global _mapping
    _mapping = Lock()


os.register_at_fork(after_in_child=_renew_lock)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of weights.

    Attributes:
        path: where it is.
        bytes: its size.
        used: when it was written or mapped last, in nanoseconds since 1970.
    """

    path: Path
    bytes: int
    used: int


def kept_folder() -> Path:
    """Where files of weights are: ``maglio/weights`` in the user's cache folder."""
    return user_cache_path("maglio") / "weights"


def kept_files() -> list[KeptFile]:
    """Every file of weights, the one that was used last in front."""
    found: list[KeptFile] = []
    with suppress(OSError), os.scandir(kept_folder()) as entries:
        found.extend(_files(entries))
    return sorted(found, key=lambda file: file.used, reverse=True)


class KeptWeights:
    """The file with the repacked weights of one model.

    Args:
        model: path of the model file.
    """

    def __init__(self, model: Path) -> None:
        whole = os.path.realpath(model)
        digest = hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]
        self.path = kept_folder() / f"{Path(whole).stem[:100]}-{digest}{_SUFFIX}"

    def map(self, loading: _core.ModelLoad) -> _core.Model | None:
        """Map the weights; ``None`` when there are none, or, with a warning, none to be used."""
        try:
            with _mapping, open_regular(self.path) as file:
                _check_private(os.fstat(file.fileno()))
                model = loading.map(file.fileno())
                _mapped.append((ref(model), self.path))
                with suppress(OSError):  # it then goes earlier than it should
                    os.utime(file.fileno())
                return model
        except FileNotFoundError:
            return None
        except (OSError, _core.KeptWeightsError) as error:
            self._warn("are not used", error, "they are written anew")
            return None

    def save(
        self, loading: _core.ModelLoad, progress: Callable[[int, int], object] | None = None
    ) -> None:
        """Write the weights that were read, whole or, with a warning, not at all."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _mapping:
                self._make_room(loading.kept_bytes)
            with replacing(self.path) as file:
                os.fchmod(file.fileno(), 0o600)  # it may replace a file of another mode
                loading.keep(file.fileno(), progress)
        except (OSError, _core.KeptWeightsError) as error:
            self._warn("cannot be kept", error, "the model is read each time")

    def _make_room(self, needed: int) -> None:
        """Remove files of other models, the one that was used last at the end, for a new one.

        Raises:
            OSError: there would not be room without all of them; none is removed then.
        """
        others = [file for file in kept_files() if file.path != self.path]
        _mapped[:] = [(model, path) for model, path in _mapped if model() is not None]
        in_use = {path for _, path in _mapped}
        removable = [file for file in others if file.path not in in_use]
        most = sum(file.bytes for file in removable)
        surplus = needed + sum(file.bytes for file in others) - MOST_BYTES
        lacking = needed + _SPARE_BYTES - self._free()
        if surplus > most:
            limit = f"{_gigabytes(MOST_BYTES)} are kept at most"
            raise OSError(f"they have {_gigabytes(needed)}, and {limit}")
        if lacking > most:
            limit = f"{_gigabytes(self._free())} are free on the disk"
            raise OSError(f"they have {_gigabytes(needed)}, and {limit}")
        while removable and max(surplus, lacking) > 0:
            file = removable.pop()
            file.path.unlink(missing_ok=True)
            surplus -= file.bytes
            lacking = needed + _SPARE_BYTES - self._free()

    def _free(self) -> int:
        return shutil.disk_usage(self.path.parent).free

    def _warn(self, what: str, error: Exception, consequence: str) -> None:
        reason = getattr(error, "strerror", None) or error
        warnings.warn(
            f"the weights in {self.path} {what}: {reason}; {consequence}",
            RuntimeWarning,
            stacklevel=8,  # whoever called maglio.load
        )


def _files(entries: Iterator[os.DirEntry[str]]) -> Iterator[KeptFile]:
    for entry in entries:
        if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # another process has removed it
                status = entry.stat(follow_symlinks=False)
                yield KeptFile(Path(entry.path), status.st_size, status.st_mtime_ns)


def _gigabytes(n: int) -> str:
    return f"{n / 1e9:.1f} GB"


def _check_private(status: os.stat_result) -> None:
    """Whoever can write to the file decides what the model says, and can end the process."""
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise OSError("others may write to it")

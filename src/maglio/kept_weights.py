"""Repacked weights on disk, so that the next load of a model maps them.

Boundary: which file it is, whether it is ours, and what is said when it cannot be used; what is in
it is the core's matter (``csrc/engine/kept_weights.h``). The file is a copy that can be made again
at any time, so nothing that is wrong with it stops a load.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path

from maglio import _core
from maglio.files import open_regular, replacing

_SPARE_BYTES = 1 << 30
"""Room that is left on the disk."""


class KeptWeights:
    """The file with the repacked weights of one model.

    Args:
        model: path of the model file.
        folder: where such files are; ``maglio/weights`` in the user's cache folder when ``None``.
    """

    def __init__(self, model: Path, folder: Path | None = None) -> None:
        self._folder = user_cache_path("maglio") / "weights" if folder is None else folder
        whole = os.path.realpath(model)
        digest = hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]
        self.path = self._folder / f"{Path(whole).stem[:100]}-{digest}.weights"

    def map(self, loading: _core.ModelLoad) -> _core.Model | None:
        """Map the weights; ``None`` when there are none, or, with a warning, none to be used."""
        try:
            with open_regular(self.path) as file:
                _check_private(os.fstat(file.fileno()))
                return loading.map(file.fileno())
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
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_room(loading.weight_bytes)
            with replacing(self.path) as file:
                os.fchmod(file.fileno(), 0o600)  # it may replace a file of another mode
                loading.keep(file.fileno(), progress)
        except (OSError, _core.KeptWeightsError) as error:
            self._warn("cannot be kept", error, "the model is read each time")

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < needed + _SPARE_BYTES:
            raise OSError(
                f"they have {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free on the disk"
            )

    def _warn(self, what: str, error: Exception, consequence: str) -> None:
        reason = getattr(error, "strerror", None) or error
        warnings.warn(
            f"the weights in {self.path} {what}: {reason}; {consequence}",
            RuntimeWarning,
            stacklevel=8,  # whoever called maglio.load
        )


def _check_private(status: os.stat_result) -> None:
    """Whoever can write to the file decides what the model says, and can end the process."""
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise OSError("others may write to it")

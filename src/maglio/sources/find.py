"""What is meant by a model: a path, the default, or a name, as a path on this machine.

Boundary: chooses who looks for it. Imports huggingface_hub only when a model of the hub is wanted.
"""

from __future__ import annotations

import os
from pathlib import Path

from maglio.default_model import default_model_path
from maglio.errors import MaglioError
from maglio.sources.ollama import blob_of
from maglio.sources.reference import HubReference, parse_reference


def find_model(model: str | os.PathLike[str] | None, *, offline: bool = False) -> Path:
    """The path of a model; a model of the hub is downloaded if need be.

    Args:
        model: a path; ``hf:OWNER/REPO[:QUANT]`` or ``hf:OWNER/REPO/FILE.gguf`` of the hub;
            ``ollama:NAME[:TAG]`` in ollama's store; the installed default model when ``None``.
        offline: take what was downloaded before, and do not ask the hub.

    Raises:
        InvalidArgumentError: the name is not one.
        ModelFileError: there is no such model, or it cannot be downloaded.
        MaglioError: the extra ``hub`` is not installed.

    Warns:
        RuntimeWarning: something other than what one would expect is used; says what.
    """
    if model is None:
        return default_model_path()
    wanted = parse_reference(os.fspath(model))
    if wanted is None:
        return Path(model)
    if isinstance(wanted, HubReference):
        return _of_hub(wanted, offline=offline)
    return blob_of(wanted)


def _of_hub(wanted: HubReference, *, offline: bool) -> Path:
    try:
        from maglio.sources.hub import download
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "huggingface_hub":
            raise
        raise MaglioError(
            f"{wanted} needs the package huggingface_hub, which is not installed: "
            'pip install "maglio[hub]"'
        ) from None
    return download(wanted, offline=offline)

"""From a model file to the engine's weights."""

from __future__ import annotations

from maglio import _core
from maglio.engine.native.families import all_families
from maglio.engine.native.keys import Keys
from maglio.gguf import ModelFile


def load_model(file: ModelFile, *, threads: int, n_ctx: int = 0) -> _core.Model:
    """Repack every tensor of a file, for sessions of ``n_ctx`` positions.

    Raises:
        ModelFileError: an unsupported architecture or tensor type, a missing, superfluous or
            misshapen tensor, metadata that is implausible or that the family does not know.
    """
    architecture = file.text("general.architecture")
    family = all_families().get(architecture)
    if family is None:
        raise file.error(
            f"the architecture {architecture[:60]!r} is not supported by the native engine; "
            f"supported are {', '.join(sorted(all_families()))}"
        )
    keys = Keys(file, n_ctx)
    spec = family(keys)
    keys.check_all_read()
    complaint = spec.check()
    if complaint:
        raise file.error(complaint)
    try:
        return _core.load_model(file.header, spec, keys.known_tensors, threads)
    except _core.GgufError as error:
        raise file.error(str(error)) from error

"""From a model file to the engine's weights."""

from __future__ import annotations

from collections.abc import Callable

from maglio import _core, machine
from maglio.engine.native.families import all_families
from maglio.engine.native.keys import Keys
from maglio.errors import ModelFileError, OutOfMemoryError, UnsupportedModelError
from maglio.gguf import ModelFile
from maglio.kept_weights import KeptWeights

_LEAST_POSITIONS = 512
"""Of a cache for which there must be room; a shorter one would be of little use."""

_ADVICE = "use a smaller or more strongly quantized model"


def load_model(
    file: ModelFile,
    *,
    threads: int,
    n_ctx: int = 0,
    cache_type: _core.CacheType = _core.CacheType.F16,
    kept: KeptWeights | None = None,
    on_load: Callable[[int, int], object] | None = None,
) -> _core.Model:
    """Repack every tensor of a file, for sessions of ``n_ctx`` positions.

    Args:
        file: the open model file.
        threads: number of threads.
        n_ctx: positions of a session.
        cache_type: of its keys and values.
        kept: where to map the repacked weights from, and to write them to if they are not there.
        on_load: is called now and then with bytes done and bytes in all, of what is read and then
            of what is written.

    Raises:
        ModelFileError: an unsupported architecture or tensor type, a missing, superfluous or
            misshapen tensor, metadata that is implausible or that the family does not know; or
            the file was written to meanwhile.
        OutOfMemoryError: weights and a short cache do not fit in memory.
    """
    try:
        loading = plan_model(file, n_ctx=n_ctx)
        mapped = None if kept is None else kept.map(loading)
        if mapped is not None:
            return mapped
        _check_memory(file, loading, loading.cache_bytes(min(n_ctx, _LEAST_POSITIONS), cache_type))
        model = loading.read(threads, on_load)
        if kept is not None:
            kept.save(loading, on_load)
        return model
    except _core.GgufError as error:
        raise file.error(str(error)) from error
    except MemoryError as error:
        if isinstance(error, OutOfMemoryError):
            raise
        raise OutOfMemoryError(f"no memory for the weights of {file.path}; {_ADVICE}") from error


def plan_model(file: ModelFile, *, n_ctx: int = 0) -> _core.ModelLoad:
    """Find every tensor that a model needs, and read none of the large ones.

    Raises:
        ModelFileError: as :func:`load_model`.
    """
    architecture = file.text("general.architecture")
    family = all_families().get(architecture)
    if family is None:
        raise file.error(
            f"the architecture {architecture[:60]!r} is not supported by the native engine; "
            f"supported are {', '.join(sorted(all_families()))}",
            UnsupportedModelError,
        )
    keys = Keys(file, n_ctx)
    spec = family(keys)
    keys.check_all_read()
    complaint = spec.check()
    if complaint:
        raise file.error(complaint)
    try:
        return _core.ModelLoad(file.header, spec, keys.known_tensors)
    except _core.GgufError as error:
        unknown = any(tensor.bytes == 0 for tensor in file.tensors.values())
        kind = UnsupportedModelError if unknown else ModelFileError
        raise file.error(str(error), kind) from error


def _check_memory(file: ModelFile, loading: _core.ModelLoad, cache: int) -> None:
    """Say that a model is too large before its first byte is read."""
    available = machine.available_memory()
    if available is None or loading.weight_bytes + cache <= available:
        return
    raise OutOfMemoryError(
        f"the weights of {file.path} need {_megabytes(loading.weight_bytes)} and a short cache "
        f"{_megabytes(cache)}, and {_megabytes(available)} are available; end other programs, or "
        f"{_ADVICE}"
    )


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.1f} MB" if n < 10**8 else f"{n / 1e6:,.0f} MB"

"""Engines by name: what opens a model for each, Maglio's own and those of other packages.

``auto`` takes another engine where the first one does not run a sound file, and says so.

A package adds an engine with an entry point of the group ``maglio.engines``: its name is what
``maglio.load(engine=...)`` takes, its value a function like :class:`Opener`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from maglio.checks import check_choice
from maglio.engine.base import Engine
from maglio.errors import (
    InvalidArgumentError,
    MaglioError,
    ModelFileError,
    OutOfMemoryError,
    UnsupportedModelError,
)

if TYPE_CHECKING:
    from maglio.text import Tokenizer

GROUP = "maglio.engines"
_NOTHING: Mapping[str, object] = MappingProxyType({})

MOST_CONTEXT = 2**30
"""Largest ``n_ctx`` that an engine has to take."""

BUILT_IN = (
    EntryPoint("native", "maglio.native_model:open_native", GROUP),
    EntryPoint("llama.cpp", "maglio.llama_cpp_model:open_llama_cpp", GROUP),
    EntryPoint("transformers", "maglio.transformers_model:open_transformers", GROUP),
)


class Opened(NamedTuple):
    """A model that is ready to run.

    Attributes:
        engine: its weights.
        tokenizer: the tokenizer that belongs to them.
        chat_template: sources of its chat templates by name, ``default`` among them if it has one.
        path: the file or directory that it was read from.
    """

    engine: Engine
    tokenizer: Tokenizer
    chat_template: Mapping[str, str]
    path: Path


class UnknownOptionsError(InvalidArgumentError):
    """An engine does not have some options that it was given.

    Attributes:
        engine: its name.
        unknown: names of the options,
        known: and of those that it has.
    """

    def __init__(self, engine: str, unknown: Sequence[str], known: Sequence[str]) -> None:
        self.engine, self.unknown, self.known = engine, tuple(unknown), tuple(known)
        super().__init__(
            f"the engine {engine!r} has no option {' and no option '.join(map(repr, unknown))}; "
            f"it has {', '.join(known)}"
        )


class Opener(Protocol):
    """Opens a model. It must take these options, and may take others, all by name."""

    def __call__(self, path: Path, /, *, n_ctx: int, threads: int | None, kv_cache: str) -> Opened:
        """Open the model at ``path``.

        Raises:
            ModelFileError: the model is missing, damaged, or not of a kind that the engine runs.
            InvalidArgumentError: an option is out of range.
            OutOfMemoryError: the model does not fit in memory.
        """
        ...


def engine_names() -> list[str]:
    """The names of all engines that are installed."""
    return list(_found())


def engine_for(path: Path) -> str:
    """The engine that ``auto`` stands for: ``native``, but for a checkpoint of transformers."""
    is_checkpoint = (path / "config.json").is_file() and not any(path.glob("*.gguf"))
    return "transformers" if is_checkpoint else "native"


def open_model(
    name: str,
    path: Path,
    options: Mapping[str, object],
    *,
    offers: Mapping[str, object] = _NOTHING,
) -> Opened:
    """Open a model on the engine called ``name``; for ``auto``, on the one for what it is.

    Where that is ``native``, and it does not run a file of this kind, ``auto`` is ``llama.cpp``.

    Args:
        name: an engine.
        path: what to open.
        options: are passed to the opener, which must have all of them.
        offers: are passed to an opener that has them.

    Raises:
        InvalidArgumentError: there is no such engine.
        UnknownOptionsError: it does not have one of the options.
        MaglioError: the engine's package cannot be loaded.
        ModelFileError: the model is missing, damaged, or not of a kind that the engine runs.
        OutOfMemoryError: the model does not fit in memory.

    Warns:
        RuntimeWarning: ``auto`` is ``llama.cpp``; says why.
    """
    check_choice("engine", name, ("auto", *_found()))
    if name != "auto":
        return _opened(name, path, options, offers)
    try:
        return _opened(engine_for(path), path, options, offers)
    except UnsupportedModelError as error:
        return _fall_back(error, path, options, offers)


def _fall_back(
    refusal: UnsupportedModelError,
    path: Path,
    options: Mapping[str, object],
    offers: Mapping[str, object],
) -> Opened:
    """Open on llama.cpp what the native engine does not run.

    It reads weights as they are in the file, so the option ``cache`` is nothing to it.
    """
    if find_spec("llama_cpp") is None:
        raise UnsupportedModelError(
            f'{refusal}. llama.cpp may run it: pip install "maglio[llama]"'
        ) from refusal
    options = {name: value for name, value in options.items() if name != "cache"}
    try:
        opened = _opened("llama.cpp", path, options, offers)
    except ModelFileError as error:
        raise UnsupportedModelError(f"{refusal}. Nor does llama.cpp run it: {error}") from error
    except OutOfMemoryError as error:
        raise OutOfMemoryError(f"{refusal}. On llama.cpp: {error}") from error
    warnings.warn(
        f"{refusal}. It runs on llama.cpp instead (engine='llama.cpp')", RuntimeWarning, 4
    )
    return opened


def _opened(
    name: str, path: Path, options: Mapping[str, object], offers: Mapping[str, object]
) -> Opened:
    try:
        opener: Opener = _found()[name].load()
    except Exception as error:  # whatever another package does when it is imported
        raise MaglioError(f"the engine {name!r} cannot be loaded: {error}") from error
    parameters = inspect.signature(opener).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [option for option in options if option not in parameters]
    if unknown and not takes_all:
        raise UnknownOptionsError(name, unknown, list(parameters)[1:])
    wanted = {option: value for option, value in offers.items() if option in parameters}
    return opener(path, **options, **wanted)  # type: ignore[arg-type]  # as its signature says


def _found() -> dict[str, EntryPoint]:
    others = {point.name: point for point in entry_points(group=GROUP)}
    return others | {point.name: point for point in BUILT_IN}

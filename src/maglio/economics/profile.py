"""This machine's measured verify costs, kept between runs: one small JSON file per setting.

A profile is a hint, so a damaged one is ignored, with a warning; it never stops a generation.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from maglio.economics.probe import ContextCosts, Spread, VerifyCosts
from maglio.engine.base import Engine
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.files import write_atomic
from maglio.gguf_parts import files_of
from maglio.version import __version__

_Json: TypeAlias = Any  # as json gives it: whatever is wrong with it ends in one warning
_FORMAT = 1
_HEAD, _TAIL = 1 << 20, 1 << 16
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """What a measurement holds for: another value of any of these, and it does not.

    Attributes:
        model: fingerprint of the model's files.
        engine: name of the engine,
        version: and its version.
        threads: number of threads.
        isa: instruction set,
        kv_cache: and precision of the KV cache; empty where an engine does not say.
    """

    model: str
    engine: str
    version: str
    threads: int
    isa: str
    kv_cache: str

    @classmethod
    def of(cls, engine: Engine, path: Path) -> ProfileKey | None:
        """The key of an engine that runs the model at ``path``; ``None`` if that cannot be read."""
        try:
            model = fingerprint(path)
        except OSError:
            return None
        version = str(getattr(engine, "version", __version__))
        threads = int(getattr(engine, "threads", 0))
        isa, kv_cache = (str(getattr(engine, name, "")) for name in ("isa", "kv_cache"))
        return cls(model, str(engine.name), version, threads, isa, kv_cache)

    @property
    def file_name(self) -> str:
        """Name of the profile's file."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def fingerprint(path: Path) -> str:
    """Tell models apart by size, beginning and end of each of their files.

    Shapes and formats are in there. Of a split model ``path`` is the first part.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for part in files_of(path):
        size = part.stat().st_size
        digest.update(str(size).encode())
        with part.open("rb") as file:
            digest.update(file.read(_HEAD))
            file.seek(max(0, size - _TAIL))
            digest.update(file.read(_TAIL))
    return digest.hexdigest()[:32]


class ProfileStore:
    """Profiles in a folder.

    Args:
        folder: where; the user's cache directory when ``None``.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            from platformdirs import user_cache_path

            folder = user_cache_path("maglio") / "profiles"
        self._folder = folder

    def path(self, key: ProfileKey) -> Path:
        """Where the profile of ``key`` is, or would be."""
        return self._folder / key.file_name

    def load(self, key: ProfileKey) -> VerifyCosts | None:
        """Read a profile; ``None`` when there is none, or, with a warning, none to be trusted."""
        path = self.path(key)
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            _ignore(path, error.strerror or str(error))
            return None
        try:
            if len(data) > _MAX_BYTES:
                raise ValueError("it is too large")
            return _parsed(json.loads(data), key)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            _ignore(path, str(error) or type(error).__name__)
            return None

    def save(self, key: ProfileKey, costs: VerifyCosts) -> Path:
        """Write a profile, whole or not at all.

        Raises:
            MaglioError: it cannot be written.
        """
        path = self.path(key)
        document = {"format": _FORMAT, "key": asdict(key), "costs": asdict(costs)}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(document, indent=1).encode())
        except OSError as error:
            raise MaglioError(
                f"cannot write the profile {path}: {error.strerror or error}; the measurement is "
                "not kept"
            ) from error
        return path

    def clear(self, key: ProfileKey) -> bool:
        """Remove a profile; whether there was one.

        Raises:
            MaglioError: it cannot be removed.
        """
        path = self.path(key)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise MaglioError(f"cannot remove the profile {path}: {error.strerror}") from error
        return True


def _ignore(path: Path, problem: str) -> None:
    warnings.warn(
        f"the cost profile {path} is ignored: {problem}; measure again with `maglio probe`",
        RuntimeWarning,
        stacklevel=4,
    )


def _parsed(document: _Json, key: ProfileKey) -> VerifyCosts:
    if document["format"] != _FORMAT:
        raise ValueError(f"its format is {document['format']!r}, not {_FORMAT}")
    if document["key"] != asdict(key):
        raise ValueError("it was made for something else")
    costs = document["costs"]
    contexts = tuple(_context(entry) for entry in costs["contexts"])
    if not contexts or any(at.verify.keys() != contexts[0].verify.keys() for at in contexts):
        raise ValueError("its context lengths do not go together")
    parsed = VerifyCosts(contexts, _count(costs["rows_compared"]), _count(costs["rows_equal"]))
    try:
        parsed.curve()
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from None
    return parsed


def _context(entry: _Json) -> ContextCosts:
    verify = {int(draft): _spread(spread) for draft, spread in entry["verify"].items()}
    return ContextCosts(_count(entry["context"]), _spread(entry["plain_s"]), verify)


def _spread(entry: _Json) -> Spread:
    values = [entry[name] for name in ("low", "median", "high")]
    if not all(type(value) in (int, float) and math.isfinite(value) for value in values):
        raise ValueError(f"{values} are not a measurement")
    if not 0 < values[0] <= values[1] <= values[2]:
        raise ValueError(f"{values} are not in order")
    return Spread(*map(float, values))


def _count(value: _Json) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value

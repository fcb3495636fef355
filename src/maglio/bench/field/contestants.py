"""Who takes part: each engine with each of its methods, at the settings that its documents advise.

Boundary: says what there is and finds where it is installed. Starts nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maglio.bench.field.line import Contestant
from maglio.engine.registry import engine_names

_SAY_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_LIMIT_S = 60.0
_OURS = "maglio"
_GROWTH_OF_FLOATS = 8.0
_TRANSFORMERS = ("transformers", "torch", "gguf", "accelerate")  # the last two for GGUF files


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A contestant that may take part.

    Attributes:
        name: unique.
        engine: what computes; those of one engine are compared with its ``plain`` method.
        method: ``plain``, or how it drafts.
        module: what opens it in its process.
        packages: what its interpreter needs; the first names the version.
        install: the command that installs them.
        settings: by the engine's own names.
        converts: whether it needs the weights as a checkpoint of the transformers library.
        remembers: whether an answer can depend on earlier ones, so that it begins anew for each
            task.
        growth: bytes of memory that it needs for each byte of the model file, about.
    """

    name: str
    engine: str
    method: str
    module: str
    packages: tuple[str, ...]
    install: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    converts: bool = False
    remembers: bool = False
    growth: float = 2.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant as it was found here.

    Attributes:
        entrant: what it is.
        python: the interpreter that runs it; empty if it is absent.
        contestant: what the results say of it.
    """

    entrant: Entrant
    python: str
    contestant: Contestant

    @property
    def name(self) -> str:
        """Its name."""
        return self.entrant.name


def _maglio(engine: str, name: str, packages: tuple[str, ...], extra: str) -> list[Entrant]:
    """Maglio on one of its engines, plainly and speculatively."""
    engine_name = "maglio" if engine == "native" else f"maglio on {engine}"
    common: dict[str, Any] = {
        "engine": engine_name,
        "module": ".maglio_model",
        "packages": (_OURS, *packages),
        "install": f'pip install "maglio[{extra}]"' if extra else "pip install maglio",
        "converts": engine == "transformers",
        "growth": _GROWTH_OF_FLOATS if engine == "transformers" else 2.0,
    }
    return [
        Entrant(name=f"{name}-plain", method="plain", settings={"engine": engine}, **common),
        Entrant(
            name=name,
            method="speculative",
            settings={"engine": engine, "history": False},
            **common,
        ),
    ]


def _llama_server(method: str, *, remembers: bool = False, **settings: int) -> Entrant:
    """llama.cpp's server; numbers are what llama.cpp's docs/speculative.md gives for the method."""
    drafts: dict[str, Any] = {}
    if method != "plain":
        drafts["speculative.types"] = [method]
        part = method.replace("-", "_")
        drafts |= {f"speculative.{part}.{key}": value for key, value in settings.items()}
    return Entrant(
        name=f"llama.cpp-{method}",
        engine="llama.cpp",
        method=method,
        module=".llama_server",
        packages=("xllamacpp",),
        install="pip install xllamacpp, here or in the interpreter of --peer",
        settings=drafts,
        remembers=remembers,
    )


def _peer(engine: str, method: str, **settings: int) -> Entrant:
    """A library with a method of its own, called prompt lookup in both."""
    of_floats = engine == "transformers"
    packages = _TRANSFORMERS if of_floats else (engine,)
    return Entrant(
        name=f"{engine}-{'plain' if method == 'plain' else 'lookup'}",
        engine=engine,
        method=method,
        module=".transformers_model" if of_floats else ".llama_python",
        packages=packages,
        install=f"pip install {' '.join(packages)}",
        settings=settings,
        converts=of_floats,
        growth=_GROWTH_OF_FLOATS if of_floats else 2.0,
    )


ENTRANTS: tuple[Entrant, ...] = (
    *_maglio("native", "maglio", (), ""),
    _llama_server("plain"),
    _llama_server("ngram-simple", size_n=12, size_m=48, min_hits=1),
    _llama_server("ngram-map-k", size_n=12, size_m=48, min_hits=1),
    _llama_server("ngram-map-k4v", size_n=8, size_m=8, min_hits=2),
    _llama_server("ngram-mod", remembers=True, n_match=24, n_min=48, n_max=64),
    _llama_server("ngram-cache", remembers=True),
    _peer("llama-cpp-python", "plain"),
    # Its documentation: 2 tokens are better than the default of 10 where there is no GPU.
    _peer("llama-cpp-python", "prompt lookup", num_pred_tokens=2, max_ngram_size=2),
    *_maglio("llama.cpp", "maglio-llama.cpp", ("llama-cpp-python",), "llama"),
    _peer("transformers", "plain"),
    _peer("transformers", "prompt lookup", prompt_lookup_num_tokens=10, max_matching_ngram_size=2),
    *_maglio("transformers", "maglio-transformers", _TRANSFORMERS, "hf"),
)
"""All of them, each engine's plain decoding before its methods."""


def find(entrants: Iterable[Entrant], peers: Sequence[str] = ()) -> list[Entry]:
    """Find where contestants are installed.

    Args:
        entrants: who they are.
        peers: interpreters to look for others than Maglio in, after this one.
    """
    entrants = tuple(entrants)
    packages = sorted({package for entrant in entrants for package in entrant.packages})
    found = {python: versions_in(python, packages) for python in (sys.executable, *peers)}
    return [_entry(entrant, found) for entrant in entrants]


def versions_in(python: str, packages: Sequence[str]) -> dict[str, str]:
    """The versions of those packages that an interpreter has; none if it cannot be run."""
    command = [python, "-c", _SAY_VERSIONS, *packages]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=True)
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def _entry(entrant: Entrant, found: Mapping[str, Mapping[str, str]]) -> Entry:
    engine = entrant.settings.get("engine", "native")
    if engine not in engine_names():
        return _absent(entrant, f"this version of Maglio has no engine {engine!r}")
    for python, versions in found.items():
        if python != sys.executable and _OURS in entrant.packages:
            continue  # that would be another Maglio
        if all(package in versions for package in entrant.packages):
            version = ", ".join(f"{package} {versions[package]}" for package in entrant.packages)
            return Entry(entrant, python, _contestant(entrant, version, None))
    here = next(iter(found.values()))
    missing = ", ".join(package for package in entrant.packages if package not in here)
    return _absent(entrant, f"{missing}: not installed; {entrant.install}")


def _absent(entrant: Entrant, why: str) -> Entry:
    return Entry(entrant, "", _contestant(entrant, "", why))


def _contestant(entrant: Entrant, version: str, absent: str | None) -> Contestant:
    return Contestant(
        entrant.name, entrant.engine, entrant.method, dict(entrant.settings), version, absent
    )

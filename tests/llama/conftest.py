"""Tests that need the extra ``llama``: they are skipped where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

IS_MISSING = find_spec("llama_cpp") is None


class _Skipped(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self):
        pytest.skip("needs llama-cpp-python: make test-llama", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return _Skipped.from_parent(parent, path=module_path) if IS_MISSING else None


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    from support.tiny import TinyModels

    return TinyModels(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def opened(models):
    """Engines on tiny models, each opened once: family, format, and options."""
    from functools import cache

    from maglio.llama_cpp_model import open_llama_cpp

    @cache
    def engine(family, fmt="Q8_0", **options):
        options = {"n_ctx": 256, "threads": 1, "cache_tokens": 2048, **options}
        return open_llama_cpp(models.path(family, fmt), **options).engine

    return engine

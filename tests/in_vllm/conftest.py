"""Tests inside vLLM: they are skipped where it is not installed (`make test-vllm`)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

MISSING = [name for name in ("vllm", "torch", "transformers") if find_spec(name) is None]


class _Skipped(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self):
        pytest.skip(f"needs {', '.join(MISSING)}: make test-vllm", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return _Skipped.from_parent(parent, path=module_path) if MISSING else None


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    from support.checkpoints import TinyCheckpoints

    return TinyCheckpoints(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory):
    """SmolLM2 as a checkpoint, from its GGUF file."""
    from support.gguf_checkpoint import write_checkpoint
    from support.real_models import real_model_path

    return write_checkpoint(real_model_path("smollm2-135m"), tmp_path_factory.mktemp("smollm2"))

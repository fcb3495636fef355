"""Tests that need the extra ``hf``: they are skipped where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

MISSING = [name for name in ("torch", "transformers") if find_spec(name) is None]


class _Skipped(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self):
        pytest.skip(f"needs {', '.join(MISSING)}: make test-hf", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return _Skipped.from_parent(parent, path=module_path) if MISSING else None


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Several threads only wait for each other on models this small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    from support.checkpoints import TinyCheckpoints

    return TinyCheckpoints(tmp_path_factory.mktemp("checkpoints"))

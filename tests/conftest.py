"""Fixtures of the whole suite: models that are worth making once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.tiny import TinyModels
from support.workshop import Workshop

# A busy machine is not a failed test.
settings.register_profile("maglio", deadline=None)
settings.load_profile("maglio")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models of every family and format."""
    return TinyModels(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def workshop(tiny: TinyModels, tmp_path: Path) -> Workshop:
    return Workshop(tiny, tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _no_profiles_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Cost profiles measured here must not decide what the tests see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield

"""Fixtures of the whole suite: models that are worth making once."""

from __future__ import annotations

import pytest

from support.tiny import TinyModels


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models of every family and format."""
    return TinyModels(tmp_path_factory.mktemp("tiny"))

"""The public face changes on purpose, or not at all."""

from __future__ import annotations

from pathlib import Path

import maglio
from support.api import describe

GOLDEN = Path(__file__).parent / "goldens" / "api.txt"


def test_the_public_face_is_the_one_on_record():
    # After a change on purpose: PYTHONPATH=tests python -m support.api > tests/goldens/api.txt
    assert describe() == GOLDEN.read_text()


def test_every_public_name_is_there_and_documented():
    for name in maglio.__all__:
        value = getattr(maglio, name)
        assert isinstance(value, str) or value.__doc__, name

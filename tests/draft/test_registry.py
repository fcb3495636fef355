"""The sources that can be asked for by name, and what they are made of."""

from __future__ import annotations

import pytest

from maglio.draft.past import History
from maglio.draft.record import RecordOptions
from maglio.draft.registry import SOURCES, Setting, calibrated, record
from maglio.economics.cost import FLAT_COST
from maglio.economics.gate import CALIBRATED_GATE, GateOptions
from maglio.speculation import Speculation
from support.cascades import prompt, proposed

SETTING = Setting(n_vocab=50, cost=FLAT_COST)


def with_history() -> Setting:
    past = History()
    past.add([1, 2, 3, 4])
    return Setting(n_vocab=50, cost=FLAT_COST, history=past)


@pytest.mark.parametrize(
    ("name", "members", "gate"),
    [
        ("calibrated", ["conversation", "history"], CALIBRATED_GATE),
        ("record", ["conversation", "recycling"], GateOptions()),
        ("recycling", ["recycling"], GateOptions()),
    ],
)
def test_a_name_stands_for_members_and_a_gate(name, members, gate):
    source = SOURCES[name](with_history())
    assert list(source.parts()) == members
    assert source.gate == gate
    assert Speculation(source=name).source == name


def test_every_stream_has_a_source_of_its_own():
    for make in SOURCES.values():
        first, second = make(SETTING), make(SETTING)
        first.observe(prompt([1, 2, 3, 1, 2]))
        assert proposed(second, 4) is None


def test_options_reach_the_policy():
    stream = prompt([1, 2, 3, 4, 5, 1])
    assert proposed(_after(record(RecordOptions(min_match=1)), stream), 2) == (
        "conversation",
        [2, 3],
    )
    assert proposed(_after(record(), stream), 2) == ("recycling", [2, 3])
    assert proposed(_after(record(recycling=False), stream), 2) is None
    assert list(calibrated(recycling=True)(SETTING).parts()) == ["conversation", "recycling"]


def _after(make, step):
    source = make(SETTING)
    source.observe(step)
    return source

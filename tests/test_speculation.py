"""How drafting is set up: names, factories, histories, and what is refused."""

from __future__ import annotations

import pytest

import maglio
from maglio.draft.record import RecordOptions
from maglio.draft.registry import Setting, calibrated, record
from maglio.draft.source import DraftSource
from maglio.economics.cost import FLAT_COST
from maglio.economics.gate import CALIBRATED_GATE, GateOptions
from maglio.errors import InvalidArgumentError
from maglio.speculation import DraftingSetup
from support.models import TINY, write_model

GREEDY = maglio.SamplingParams()
SAMPLED = maglio.SamplingParams(temperature=1.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> maglio.Model:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, "llama", TINY["llama"], "Q4_0")
    return maglio.load(path, n_ctx=256, threads=1)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"source": "best"}, "source is 'best', must be calibrated, record or recycling"),
        ({"source": 7}, "source"),
        ({"max_draft": 0}, "max_draft"),
        ({"gate": "on"}, "gate"),
        ({"history": 7}, "history"),
        ({"cost": 7}, "cost"),
    ],
)
def test_impossible_speculation_is_refused(bad, says):
    with pytest.raises(InvalidArgumentError, match=says):
        maglio.Speculation(**bad)


def test_a_factory_that_makes_something_else_is_refused(model):
    how = maglio.Speculation(source=lambda setting: [])
    with pytest.raises(InvalidArgumentError, match="must return a DraftSource"):
        model.generate([1], speculation=how)


def start(**options):
    setup = DraftingSetup(50, lambda: FLAT_COST)
    return setup.start(maglio.Speculation(**options), GREEDY)


def test_a_factory_hears_what_its_stream_is():
    heard: list[Setting] = []

    def make(setting: Setting) -> DraftSource:
        heard.append(setting)
        return record()(setting)

    history = maglio.History()
    drafting = start(source=make, history=history)
    assert heard[0].n_vocab == 50
    assert heard[0].greedy
    assert heard[0].cost is drafting.cost
    assert heard[0].history is history


def test_every_source_has_the_gate_that_suits_it(model):
    assert start().drafter._gate._options == CALIBRATED_GATE
    assert start(source="record").drafter._gate._options == GateOptions()
    own = GateOptions(window=5)
    assert start(gate=own).drafter._gate._options == own
    assert start(gate=False).drafter._gate is None


def test_the_record_policy_takes_its_own_options():
    source = record(RecordOptions(min_match=5))(Setting(n_vocab=50, cost=FLAT_COST))
    assert source._policy._options.min_match == 5


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("calibrated", ["conversation"]),
        ("record", ["conversation", "recycling"]),
        ("recycling", ["recycling"]),
        (calibrated(recycling=True), ["conversation", "recycling"]),
        (record(recycling=False), ["conversation"]),
    ],
)
def test_a_source_has_the_parts_it_was_asked_for(model, source, parts):
    how = maglio.Speculation(source=source, history=False)
    out = model.generate([1, 2], max_tokens=4, speculation=how)
    assert list(out.stats.sources) == parts


def test_an_engine_that_cannot_rewind_is_never_drafted_for():
    setup = DraftingSetup(50, lambda: FLAT_COST, can_rewind=False)
    assert setup.start(True, GREEDY).drafter is None


def sources(model, history):
    how = maglio.Speculation(history=history)
    return model.generate([1, 2], max_tokens=40, speculation=how).stats.sources


def test_generations_share_the_history_of_their_key_and_of_no_other(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, "llama", TINY["llama"], "Q4_0")
    fresh = maglio.load(path, n_ctx=256, threads=1)
    own = maglio.History()
    for history in (True, "anna", "", own):
        assert "history" not in sources(fresh, history)
        assert sources(fresh, history)["history"].accepted > 0
    assert "history" not in sources(fresh, False)
    assert "history" not in sources(fresh, "bert")
    assert len(own) == 2 * 42


def test_plain_generations_are_not_remembered(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, "llama", TINY["llama"], "Q4_0")
    fresh = maglio.load(path, n_ctx=256, threads=1)
    fresh.generate([1, 2], max_tokens=40, speculation=False)
    assert len(fresh.history()) == 0


def test_a_history_changes_no_token(model):
    for sampling in (GREEDY, SAMPLED):
        runs = [
            model.generate([3, 4], max_tokens=40, sampling=sampling, speculation=how).tokens
            for how in (False, maglio.Speculation(history="x"), maglio.Speculation(history="x"))
        ]
        assert runs[0] == runs[1] == runs[2]

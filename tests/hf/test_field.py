"""Contestants of a field benchmark that run the transformers library, on a tiny model."""

from __future__ import annotations

import tempfile

import pytest

from bench.field_samples import HEADER
from maglio.bench.field.contestants import ENTRANTS, find
from maglio.bench.field.line import FieldTask, Header
from maglio.bench.field.prompts import FieldPrompt, Item, TaskPrompts
from maglio.bench.field.results_file import ResultsFile
from maglio.bench.field.runner import Field, FieldRunner
from support.chat_model import write_chat_model

NAMES = ("maglio-plain", "transformers-plain", "transformers-lookup", "maglio-transformers")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs by contestant, and what is left where temporary folders are made."""
    folder = tmp_path_factory.mktemp("field")
    model = write_chat_model(folder / "tiny.gguf")
    prompt = FieldPrompt(Item(name="1"), (72, 101, 108, 108, 111) * 20)
    task = TaskPrompts(FieldTask("repetition", "built in", 1, "It repeats."), (prompt,))
    field = Field(
        model=str(model),
        entries=find(entrant for entrant in ENTRANTS if entrant.name in NAMES),
        tasks=[task],
        temperatures=(0.0,),
        rounds=1,
        max_tokens=40,
        n_ctx=256,
        threads=1,
        ends=(298,),
        limit_s=300.0,
    )
    header = Header(
        HEADER.model,
        HEADER.machine,
        1,
        HEADER.n_ctx,
        40,
        1,
        "",
        tuple(entry.contestant for entry in field.entries),
        (task.task,),
    )
    place = folder / "temporary"
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch, ResultsFile(folder / "f", header) as file:
        patch.setattr(tempfile, "tempdir", str(place))
        runner = FieldRunner(field, file, model_bytes=model.stat().st_size)
        return {run.contestant: run for run in runner.runs()}, list(place.iterdir())


def test_all_say_the_same_tokens(runs):
    made, _ = runs
    assert [run.error for run in made.values()] == [None] * 4
    assert {run.tokens for run in made.values()} == {40}
    assert len({run.digest for run in made.values()}) == 1
    assert made["transformers-lookup"].equal is True
    assert made["maglio-transformers"].equal is None  # its own plain decoding takes no part here


def test_forwards_and_drafts_are_counted(runs):
    made, _ = runs
    plain, lookup = made["transformers-plain"], made["transformers-lookup"]
    assert (plain.steps, plain.drafted, plain.accepted) == (39, 0, 0)
    assert 0 < lookup.steps < 39
    assert lookup.steps + lookup.accepted == 39
    assert lookup.drafted >= lookup.accepted


def test_times_are_told_and_the_checkpoint_is_removed(runs):
    made, left = runs
    assert all(run.first_token_s > 0 and run.decode_s > 0 for run in made.values())
    assert left == []

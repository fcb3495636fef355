"""Tasks of a field benchmark: their prompts fit, and are what the data says."""

from __future__ import annotations

import gzip
import json

import pytest

from bench.samples import (
    COMPLETION,
    EDIT,
    JSON_ANSWER,
    MATHS,
    QUESTION,
    REACT,
    TRAJECTORY,
    write_lines,
)
from maglio.bench.data import Message
from maglio.bench.field.data_tasks import SCHEMA, data_kinds
from maglio.bench.field.prompts import Item, Kind, built_in, encode, spread
from maglio.bench.stream import ModelText
from maglio.errors import DataFileError
from support.chat_model import chat_model

LONG_EDIT = {**EDIT, "input": "x = 1\n" * 60}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    model = chat_model(tmp_path_factory.mktemp("model"))
    return ModelText(model.tokenizer, model.chat_template)


@pytest.fixture
def folder(tmp_path):
    rag = {**QUESTION, "category": "rag", "turns": ["A passage.\nWhat is it?"]}
    other = {**QUESTION, "category": "rag", "turns": ["Another passage.\nWhy?"]}
    write_lines(tmp_path / "spec_bench_question.jsonl", QUESTION, rag, other)
    write_lines(tmp_path / "EditEval.jsonl", EDIT, LONG_EDIT)
    with gzip.open(tmp_path / "HumanEval.jsonl.gz", "wt") as file:
        file.write(json.dumps(COMPLETION))
    (tmp_path / "sweagent_traj").mkdir()
    trajectory = {"history": [*TRAJECTORY["history"][:4], *TRAJECTORY["history"][2:4]]}
    (tmp_path / "sweagent_traj" / "1.traj").write_text(json.dumps(trajectory))
    write_lines(tmp_path / "sglang_react_hotpotqa_100.jsonl", REACT)
    (tmp_path / "arctic_json_mode_WikiQuestions.json").write_text(json.dumps([JSON_ANSWER]))
    write_lines(tmp_path / "gsm8k_test.jsonl", *[MATHS] * 7)
    return tmp_path


def test_every_data_set_makes_its_tasks(folder):
    kinds = {kind.name: kind for kind in data_kinds(folder)}
    counts = {name: len(kind.items) for name, kind in kinds.items()}
    assert counts == {
        "spec-bench multi-turn": 1,
        "spec-bench translation": 0,
        "spec-bench summarization": 0,
        "spec-bench qa": 0,
        "spec-bench maths": 0,
        "spec-bench rag": 2,
        "rag with references": 2,
        "edits": 1,  # the other one is too short
        "edits with prediction": 1,
        "humaneval": 1,
        "agent traces": 1,
        "react traces": 1,
        "json schema": 1,
        "restatement": 2,
    }
    assert kinds["edits"].items[0].prediction is None
    assert kinds["edits with prediction"].items[0].prediction == LONG_EDIT["input"]
    assert kinds["edits"].items[0].messages == kinds["edits with prediction"].items[0].messages
    assert kinds["humaneval"].items[0].text == COMPLETION["prompt"]
    assert kinds["json schema"].items[0].schema == SCHEMA
    store = "A passage.\nWhat is it?\n\nAnother passage.\nWhy?"
    assert {item.references for item in kinds["rag with references"].items} == {(store,)}
    restated = kinds["restatement"].items[0].messages
    assert [message.role for message in restated] == ["user", "assistant"] * 3 + ["user"]
    assert all(kind.expected.endswith(".") for kind in kinds.values())


def test_a_folder_without_data_is_an_error_that_names_what_is_known(tmp_path):
    with pytest.raises(DataFileError, match=r"no known data set; it may have spec_bench_question"):
        data_kinds(tmp_path)


def test_built_in_tasks_take_their_references_with_them():
    kinds = {kind.name: kind for kind in built_in()}
    assert list(kinds)[:2] == ["repetition", "grounded copy"]
    assert kinds["reference"].items[0].references[0].startswith("Photosynthesis")
    assert kinds["free form"].items[0].references == ()


def made(*items: Item) -> Kind:
    return Kind(name="k", data="built in", expected="Nothing.", items=items)


def test_the_first_prompts_that_fit_are_taken(text):
    items = [Item(name=str(n), text="a" * n) for n in (9, 3, 12, 4, 5)]
    found = encode(made(*items), text, count=2, most=8)
    assert [prompt.name for prompt in found.prompts] == ["3", "4"]
    assert found.task.prompts == 2
    assert list(found.prompts[0].ids) == text.tokenizer.encode("aaa")
    assert encode(made(*items), text, count=2, most=1) is None


def test_a_recording_is_continued_before_the_last_answer_that_it_fits_up_to(text):
    turns = [Message("user", "u" * 9), Message("assistant", "b" * 9)] * 4
    item = Item(name="1", messages=tuple(turns), is_recording=True)
    lengths = []
    for most in (100_000, 120, 90):
        (prompt,) = encode(made(item), text, count=1, most=most).prompts
        assert len(prompt.ids) <= most
        lengths.append(text.tokenizer.decode(list(prompt.ids), show_control=True).count("b" * 9))
    assert lengths[0] == 3  # all but the last answer
    assert lengths == sorted(lengths, reverse=True)
    assert min(lengths) >= 1
    assert encode(made(item), text, count=1, most=40) is None  # not before the first answer


def test_what_a_template_refuses_is_left_out(tmp_path):
    refusing = "{{ raise_exception('no') }}"
    model = chat_model(tmp_path, template=refusing)
    text = ModelText(model.tokenizer, model.chat_template)
    item = Item(name="1", messages=(Message("user", "a"),))
    assert encode(made(item), text, count=1, most=99) is None


@pytest.mark.parametrize("count", [0, 1, 2, 7, 12, 480])
def test_an_order_that_is_spread_has_everything_once(count):
    assert sorted(spread(range(count))) == list(range(count))


def test_the_beginning_of_an_order_is_spread():
    first = list(spread(range(480)))[:4]
    assert max(first) - min(first) > 240

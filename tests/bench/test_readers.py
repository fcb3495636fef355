"""Data files become conversations; damaged ones become one clear error."""

from __future__ import annotations

import gzip
import json

import pytest

from bench.samples import (
    CALL,
    CALL_ANSWER,
    COMPLETION,
    EDIT,
    JSON_ANSWER,
    MATHS,
    QUESTION,
    REACT,
    TRAJECTORY,
    write_lines,
)
from maglio.bench.data import read_dialogues, reader
from maglio.errors import DataFileError


def turns(dialogue):
    return [(message.role, message.text) for message in dialogue.messages]


def test_questions_are_the_turns_of_the_user(tmp_path):
    [dialogue] = read_dialogues(write_lines(tmp_path / "q.jsonl", QUESTION))
    assert dialogue.category == "writing"
    assert turns(dialogue) == [("user", "Say a."), ("user", "Say b.")]
    assert [message.text for message in dialogue.prompt] == ["Say a."]


def test_an_edit_asks_with_instruction_and_code(tmp_path):
    [dialogue] = read_dialogues(write_lines(tmp_path / "e.jsonl", EDIT))
    assert turns(dialogue) == [("user", "Rename x.\n\nx = 1"), ("assistant", "y = 1")]


def test_compressed_completions_are_read(tmp_path):
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(COMPLETION).encode()))
    [dialogue] = read_dialogues(path)
    assert turns(dialogue) == [("user", "def f():\n"), ("assistant", "    return 1\n")]


def test_maths_is_not_taken_for_a_json_answer(tmp_path):
    [maths] = read_dialogues(write_lines(tmp_path / "m.jsonl", MATHS))
    assert turns(maths) == [("user", "1 + 1?"), ("assistant", "#### 2")]
    path = tmp_path / "j.json"
    path.write_text(json.dumps([JSON_ANSWER], indent=1))
    [answer] = read_dialogues(path)
    assert turns(answer)[1] == ("assistant", '{"answerable": false, "answer": "No."}')


def test_a_call_takes_the_first_allowed_value_of_every_given_argument(tmp_path):
    path = write_lines(tmp_path / "calls.json", CALL)
    write_lines(tmp_path / "calls_answer.json", CALL_ANSWER)
    [dialogue] = read_dialogues(path)
    assert turns(dialogue) == [
        ("user", '[{"name": "add"}]\n\nAdd 1 and 2.'),
        ("assistant", '[{"name": "add", "arguments": {"a": 1, "b": 2}}]'),
    ]


def test_react_steps_alternate_thoughts_and_observations(tmp_path):
    [dialogue] = read_dialogues(write_lines(tmp_path / "r.jsonl", REACT))
    assert turns(dialogue) == [
        ("user", "Question: Who?"),
        ("assistant", "Thought: Look.\nAction: Search[x]"),
        ("user", "Observation: X."),
    ]


def test_a_folder_of_trajectories_is_read_in_order(tmp_path):
    write_lines(tmp_path / "2.traj", {"history": [{"role": "user", "content": "later"}]})
    write_lines(tmp_path / "1.traj", TRAJECTORY)
    first, second = read_dialogues(tmp_path)
    assert turns(first) == [("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "O")]
    assert turns(second) == [("user", "later")]
    assert len(read_dialogues(tmp_path, limit=1)) == 1


def test_limit_takes_the_first_records(tmp_path):
    path = write_lines(tmp_path / "m.jsonl", MATHS, {**MATHS, "question": "2?"}, {"broken": 1})
    assert len(read_dialogues(path, limit=2)) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no records"),
        (b"[]", "holds no records"),
        (b"not json", "neither JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"{}", "not a JSON object"),
        (b'{"a": 1}', "no known kind"),
        (b'{"question": 1, "answer": "a"}', "'question' is not a string"),
        (b'{"category": "c", "turns": []}', "'turns' is not a list"),
        (b'{"category": "c", "turns": [1]}', "not a string"),
        (b'{"history": [{"role": "ghost", "content": "x"}]}', "no role 'ghost'"),
        (b'{"history": ["x"]}', "not an object"),
        (b'{"question": "q", "answer": "a"}\n{"question"', "neither JSON"),
        (b"[" * 100_000, "neither JSON"),
        (b'{"id": "x", "question": [[]], "function": [1]}', "cannot read"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, content, message):
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=message) as error:
        read_dialogues(path)
    assert "data" in str(error.value)


def test_a_call_without_its_answer_is_refused(tmp_path):
    path = write_lines(tmp_path / "calls.json", CALL)
    write_lines(tmp_path / "calls_answer.json", {**CALL_ANSWER, "id": "another"})
    with pytest.raises(DataFileError, match="no answer to multiple_0"):
        read_dialogues(path)


@pytest.mark.parametrize("damage", [b"\x1f\x8b broken", gzip.compress(b"x" * 5000)[:-9]])
def test_damaged_compression_is_refused(tmp_path, damage):
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(damage)
    with pytest.raises(DataFileError, match="cannot read"):
        read_dialogues(path)


def test_a_file_that_unpacks_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", 1000)
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(DataFileError, match="larger than"):
        read_dialogues(path)


def test_missing_paths_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(DataFileError, match="cannot read"):
        read_dialogues(tmp_path / "nothing.jsonl")
    with pytest.raises(DataFileError, match=r"no \.traj file"):
        read_dialogues(tmp_path)

"""Saved conversations and histories: they come back whole, or say what is wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import maglio
from maglio.errors import ConversationFileError, IndexFileError, OutOfMemoryError
from maglio.history_file import MAX_TOKENS, HistoryFile
from support.chat_model import STOP

SAMPLED = maglio.SamplingParams(temperature=0.9, logit_bias={STOP: 3.0}, seed=7)


def talk(chat, *texts):
    return [chat.send(text).result() for text in texts]


@pytest.mark.parametrize("speculation", [False, True])
def test_a_reopened_conversation_goes_on_as_if_never_closed(roomy_model, tmp_path, speculation):
    (tmp_path / "doc.txt").write_text("the quick brown fox " * 9)
    chat = roomy_model.chat(
        "be kind <|im_end|>",
        sampling=SAMPLED,
        references=["on and on", tmp_path / "doc.txt", [1, 2, 3]],
        stop=["e"],
    )
    talk(chat, "hi", "é\udcff я", "the quick brown fox")
    chat.save(tmp_path / "talk.json")
    again = roomy_model.chat(speculation=speculation)
    again.load(tmp_path / "talk.json")
    assert again.tokens == chat.tokens
    assert again.position == chat.position
    assert again.sampling == chat.sampling
    assert again.references == ("on and on", tmp_path / "doc.txt", (1, 2, 3))
    assert [turn.answer for turn in again.turns] == [turn.answer for turn in chat.turns]
    assert talk(again, "more", "hi") == talk(chat, "more", "hi")
    assert again.tokens == chat.tokens


def test_a_reopened_conversation_drafts_from_what_was_said(roomy_model, tmp_path):
    sampling = maglio.SamplingParams(temperature=0.3, logit_bias={STOP: -9.0}, seed=2)
    chat = roomy_model.chat(sampling=sampling, max_tokens=60)
    talk(chat, "on and on")
    chat.save(tmp_path / "talk.json")
    again = roomy_model.chat(max_tokens=60)
    again.load(tmp_path / "talk.json")
    answer = again.send("on and on")
    next(answer), next(answer)
    index = again._stream._sequence.drafter.source._conversation[0]._index
    assert index.total_tokens >= len(chat.tokens)


def test_every_way_of_sampling_comes_back(model, tmp_path):
    sampling = maglio.SamplingParams(
        temperature=0.9,
        typical_p=0.9,
        xtc_probability=0.5,
        dry_multiplier=0.8,
        dry_breakers=(3, 5),
        ignore_eos=True,
        logit_bias={"4": -np.inf},
        order=["dry", "typical_p", "temperature", "xtc"],
    )
    model.chat(sampling=sampling).save(tmp_path / "talk.json")
    again = model.chat()
    again.load(tmp_path / "talk.json")
    assert again.sampling == sampling


def test_where_answers_end_comes_back(model, tmp_path):
    chat = model.chat(max_tokens=3, stop=["e", "\n"], on_full="drop")
    chat.save(tmp_path / "talk.json")
    again = model.chat()
    again.load(tmp_path / "talk.json")
    assert (again.max_tokens, again.stop, again.on_full) == (3, ("e", "\n"), "drop")


def test_an_older_file_leaves_where_answers_end_as_it_is(model, tmp_path):
    path = tmp_path / "talk.json"
    model.chat(max_tokens=9).save(path)
    document = json.loads(path.read_text())
    del document["limits"]
    path.write_text(json.dumps(document))
    chat = model.chat(max_tokens=3, stop=["e"], on_full="drop")
    chat.load(path)
    assert (chat.max_tokens, chat.stop, chat.on_full) == (3, ("e",), "drop")


def test_sampling_of_an_older_file_is_read(model, tmp_path):
    model.chat(sampling=SAMPLED).save(tmp_path / "talk.json")
    document = json.loads((tmp_path / "talk.json").read_text())
    old = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "frequency_penalty")
    old += ("presence_penalty", "penalty_last_n", "logit_bias", "seed")
    document["sampling"] = {name: document["sampling"][name] for name in old}
    document["sampling"]["penalty_last_n"] = -1
    (tmp_path / "talk.json").write_text(json.dumps(document))
    again = model.chat()
    again.load(tmp_path / "talk.json")
    assert again.sampling == dataclasses.replace(SAMPLED, penalty_last_n=-1)


def test_dropped_turns_stay_dropped(model, tmp_path):
    chat = model.chat(sampling=SAMPLED, max_tokens=20, on_full="drop")
    while not chat.dropped:
        talk(chat, "on and on")
    chat.save(tmp_path / "talk.json")
    again = model.chat(on_full="drop", max_tokens=20)
    again.load(tmp_path / "talk.json")
    assert (again.dropped, again.tokens) == (chat.dropped, chat.tokens)


def test_a_file_is_private(model, tmp_path):
    model.chat().save(tmp_path / "talk.json")
    assert stat.S_IMODE((tmp_path / "talk.json").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["talk.json"]


def test_answers_of_another_tokenizer_are_encoded_anew(model, tmp_path):
    chat = model.chat(sampling=SAMPLED)
    talk(chat, "hi")
    chat.save(tmp_path / "talk.json")
    document = json.loads((tmp_path / "talk.json").read_text())
    document["tokenizer"] = "another"
    document["turns"][0] |= {"answer": "an ant", "tokens": [0]}
    (tmp_path / "talk.json").write_text(json.dumps(document))
    again = model.chat()
    again.load(tmp_path / "talk.json")
    assert model.tokenizer.decode(again.tokens).endswith("assistant\nan ant")


def test_a_missing_reference_is_left_out_with_a_warning(model, tmp_path):
    (tmp_path / "doc.txt").write_text("text")
    model.chat(references=[tmp_path / "doc.txt", "kept"]).save(tmp_path / "talk.json")
    (tmp_path / "doc.txt").unlink()
    again = model.chat()
    with pytest.warns(RuntimeWarning, match=r"a reference is left out: cannot read .*doc\.txt"):
        again.load(tmp_path / "talk.json")
    assert again.references == ("kept",)


DAMAGES = {
    "no JSON": lambda d: "{",
    "deep JSON": lambda d: "[" * 100_000,
    "another document": lambda d: [],
    "another format": lambda d: d | {"format": "x"},
    "a later version": lambda d: d | {"version": 2},
    "no turns": lambda d: {key: d[key] for key in d if key != "turns"},
    "turns that are none": lambda d: d | {"turns": [1]},
    "ids outside the vocabulary": lambda d: d | {"turns": [d["turns"][0] | {"tokens": [300]}]},
    "ids that are none": lambda d: d | {"turns": [d["turns"][0] | {"tokens": ["x"]}]},
    "an unknown end": lambda d: d | {"turns": [d["turns"][0] | {"finish_reason": "x"}]},
    "a text that is none": lambda d: d | {"turns": [d["turns"][0] | {"user": 1}]},
    "more dropped than said": lambda d: d | {"dropped": 2},
    "a position that is none": lambda d: d | {"position": True},
    "sampling that cannot work": lambda d: d | {"sampling": {"temperature": "hot"}},
    "unknown sampling": lambda d: d | {"sampling": {"magic": 1}},
    "an order that is none": lambda d: d | {"sampling": {"order": ["top_k", 3]}},
    "breakers that are none": lambda d: d | {"sampling": {"dry_breakers": "x"}},
    "bias that is none": lambda d: d | {"sampling": {"logit_bias": 3}},
    "a bias outside the vocabulary": lambda d: d | {"sampling": {"logit_bias": [[300, 1.0]]}},
    "a system prompt that is none": lambda d: d | {"system": 1},
    "limits that are none": lambda d: d | {"limits": 1},
    "limits that lack one": lambda d: d | {"limits": {"max_tokens": 1}},
    "limits that cannot work": lambda d: d | {"limits": d["limits"] | {"on_full": "x"}},
    "stop strings that are none": lambda d: d | {"limits": d["limits"] | {"stop": [1]}},
    "a reference that is none": lambda d: d | {"references": [{"url": "x"}]},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_refused_and_changes_nothing(model, tmp_path, damage):
    path = tmp_path / "talk.json"
    chat = model.chat(sampling=SAMPLED, max_tokens=5)
    talk(chat, "hi")
    chat.save(path)
    damaged = damage(json.loads(path.read_text()))
    path.write_text(damaged if isinstance(damaged, str) else json.dumps(damaged))
    before = (chat.tokens, chat.position, chat.turns)
    with pytest.raises(ConversationFileError, match=r"cannot load .*talk\.json"):
        chat.load(path)
    assert (chat.tokens, chat.position, chat.turns) == before


def test_a_load_that_runs_out_of_memory_changes_nothing(model, tmp_path, monkeypatch):
    chat, other = model.chat(max_tokens=5), model.chat(max_tokens=5)
    talk(other, "hi", "on and on")
    other.save(tmp_path / "talk.json")
    talk(chat, "hi")
    chat.add_reference("text")
    before = (chat.tokens, chat.position, chat.turns, chat.references)

    def no_memory(*_):
        raise OutOfMemoryError("none")

    monkeypatch.setattr(model.drafting, "start", no_memory)
    with pytest.raises(OutOfMemoryError):
        chat.load(tmp_path / "talk.json")
    assert (chat.tokens, chat.position, chat.turns, chat.references) == before


def test_files_that_cannot_be_used_are_named(model, tmp_path):
    with pytest.raises(ConversationFileError, match="missing"):
        model.chat().load(tmp_path / "missing")
    with pytest.raises(ConversationFileError, match="nowhere"):
        model.chat().save(tmp_path / "nowhere" / "talk.json")


# Kills itself at the call named in argv[2]; what is saved before and after differs.
KILLED = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    import maglio
    from maglio.chat import saved
    import numpy as np
    from maglio.history_file import HistoryFile

    def save(n):
        if sys.argv[3] == "history":
            return HistoryFile("key", 300, folder=Path(sys.argv[1])).add(np.full(9, n, np.int32))
        turn = maglio.Turn(str(n) * 1000, "x", (1,), "stop")
        saved.write(Path(sys.argv[1], "talk.json"), saved.SavedChat(
            fingerprint="f", system=None, turns=(turn,) * 50, dropped=0, references=(),
            sampling=maglio.SamplingParams(), position=n))

    save(1)
    real = getattr(os, sys.argv[2].rstrip("+"))
    def die(*args):
        if sys.argv[2].endswith("+"):
            real(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(os, sys.argv[2].rstrip("+"), die)
    save(2)
""")


@pytest.mark.parametrize("what", ["chat", "history"])
@pytest.mark.parametrize(("at", "saved"), [("fsync", 1), ("replace", 1), ("replace+", 2)])
def test_being_killed_while_saving_loses_nothing_saved_before(tmp_path, what, at, saved):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), at, what], check=False)
    assert done.returncode == -signal.SIGKILL
    if what == "history":
        kept = HistoryFile("key", 300, folder=tmp_path)
        assert kept.tokens().tolist() == [n for n in range(1, saved + 1) for _ in range(9)]
        kept.add(np.array([3], np.int32))  # no lock is left behind
    else:
        chat = maglio.chat.saved.read(tmp_path / "talk.json", "f", 300)
        assert chat.position == saved
        assert len(chat.turns) == 50


def test_tomorrows_chat_drafts_from_todays(roomy_model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    texts = ("the quick brown fox", "on and on")

    def chat(**options):
        return roomy_model.chat(sampling=SAMPLED, **options)

    def kept():
        return maglio.Speculation(history=maglio.History(store=roomy_model.history_file))

    said = talk(chat(speculation=kept()), *texts)
    again = chat(speculation=kept())
    assert talk(again, *texts) == said
    assert again.stats.sources["history"].accepted > 0
    again.clear_references()
    again.add_reference("the quick")
    talk(again, "hi")
    assert {"history", "reference:0"} <= again.turns[-1].stats.sources.keys()
    roomy_model.history_file.clear()
    assert len(roomy_model.history_file.tokens()) == 0
    assert talk(chat(), *texts) == said
    assert not roomy_model.history_file.path.exists()  # nothing is kept unasked


def test_a_history_is_bounded_and_private(tmp_path):
    kept = HistoryFile("key", 300, separator=299, folder=tmp_path / "kept")
    kept.add(np.zeros(MAX_TOKENS, np.int32))
    kept.add(np.array([5, 6], np.int32))
    assert len(kept.tokens()) == MAX_TOKENS
    assert kept.tokens()[-4:].tolist() == [299, 5, 6, 299]
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert HistoryFile("other", 300, folder=tmp_path / "kept").path != kept.path


@pytest.mark.parametrize("n_bytes", [0, 5, 47, 48, 51])
def test_a_damaged_history_says_how_to_go_on(tmp_path, n_bytes):
    kept = HistoryFile("key", 300, folder=tmp_path)
    kept.add(np.array([1, 2, 3], np.int32))
    kept.path.write_bytes(kept.path.read_bytes()[:n_bytes])
    with pytest.raises(IndexFileError, match=r"\.tokens: it is damaged; .*--clear-history"):
        kept.tokens()
    with pytest.raises(IndexFileError):
        HistoryFile("key", 2, folder=tmp_path).add(np.array([1], np.int32))


def test_a_history_that_cannot_be_kept_loses_no_answer(roomy_model, tmp_path):
    class Full:
        def tokens(self):
            return np.empty(0, np.int32)

        def add(self, tokens):
            raise IndexFileError("no space left")

    how = maglio.Speculation(history=maglio.History(store=Full()))
    chat = roomy_model.chat(sampling=SAMPLED, speculation=how)
    with pytest.warns(RuntimeWarning, match="not kept on disk: no space left"):
        said = talk(chat, "hi")
    assert [turn.answer for turn in chat.turns] == said
    talk(chat, "hi")  # it is told once

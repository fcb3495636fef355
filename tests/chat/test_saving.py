"""Saved conversations and warm indexes: they come back whole, or say what is wrong."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import maglio
from maglio.chat.warm import MAX_TOKENS, WarmIndex
from maglio.errors import ConversationFileError, IndexFileError
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
    again = roomy_model.chat(speculation=speculation, stop=["e"])
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
    next(again.send("on and on"))
    index = again._gate.inner._conversation.matcher
    assert index.total_tokens >= len(chat.tokens)


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
    "bias that is none": lambda d: d | {"sampling": {"logit_bias": 3}},
    "a system prompt that is none": lambda d: d | {"system": 1},
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
    from maglio.chat.warm import WarmIndex

    def save(n):
        if sys.argv[3] == "warm":
            return WarmIndex("key", 300, folder=Path(sys.argv[1])).add([n] * 9, None)
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


@pytest.mark.parametrize("what", ["chat", "warm"])
@pytest.mark.parametrize(("at", "saved"), [("fsync", 1), ("replace", 1), ("replace+", 2)])
def test_being_killed_while_saving_loses_nothing_saved_before(tmp_path, what, at, saved):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), at, what], check=False)
    assert done.returncode == -signal.SIGKILL
    if what == "warm":
        warm = WarmIndex("key", 300, folder=tmp_path)
        assert warm.tokens().tolist() == [n for n in range(1, saved + 1) for _ in range(9)]
        warm.add([3], None)  # no lock is left behind
    else:
        chat = maglio.chat.saved.read(tmp_path / "talk.json", 300)
        assert chat.position == saved
        assert len(chat.turns) == 50


def test_tomorrows_chat_drafts_from_todays(roomy_model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    texts = ("the quick brown fox", "on and on")
    said = talk(roomy_model.chat(sampling=SAMPLED, warm=True), *texts)
    again = roomy_model.chat(sampling=SAMPLED, warm=True)
    assert talk(again, *texts) == said
    assert again.stats.sources["reference:warm"].accepted > 0
    again.clear_references()
    again.add_reference("the quick")
    talk(again, "hi")
    assert {"reference:warm", "reference:0"} <= again.turns[-1].stats.sources.keys()
    roomy_model.warm_index.clear()
    assert len(roomy_model.warm_index.tokens()) == 0
    assert talk(roomy_model.chat(sampling=SAMPLED), *texts) == said
    assert not roomy_model.warm_index.path.exists()  # nothing is kept unasked


def test_a_warm_index_is_bounded_and_private(tmp_path):
    warm = WarmIndex("key", 300, folder=tmp_path / "warm")
    warm.add(np.zeros(MAX_TOKENS, np.int32).tolist(), None)
    warm.add([5, 6], 299)
    assert len(warm.tokens()) == MAX_TOKENS
    assert warm.tokens()[-4:].tolist() == [0, 5, 6, 299]
    assert stat.S_IMODE((tmp_path / "warm").stat().st_mode) == 0o700
    assert stat.S_IMODE(warm.path.stat().st_mode) == 0o600
    assert WarmIndex("other", 300, folder=tmp_path / "warm").path != warm.path


@pytest.mark.parametrize("n_bytes", [0, 5, 47, 48, 51])
def test_a_damaged_warm_index_says_how_to_go_on(tmp_path, n_bytes):
    warm = WarmIndex("key", 300, folder=tmp_path)
    warm.add([1, 2, 3], None)
    warm.path.write_bytes(warm.path.read_bytes()[:n_bytes])
    with pytest.raises(IndexFileError, match=r"\.tokens: it is damaged; .*--clear-warm"):
        warm.tokens()
    with pytest.raises(IndexFileError):
        WarmIndex("key", 2, folder=Path(tmp_path)).add([1], None)

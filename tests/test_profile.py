"""Profiles are found again, only for what they were made for, and never trusted blindly."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace

import pytest

from maglio.economics.probe import ContextCosts, Spread, VerifyCosts
from maglio.economics.profile import ProfileKey, ProfileStore, fingerprint
from maglio.errors import MaglioError

KEY = ProfileKey("abc", "native", "0.1.0", 2, "avx512", "f16")


def spread(middle: float) -> Spread:
    return Spread(0.9 * middle, middle, 1.1 * middle)


COSTS = VerifyCosts(
    tuple(
        ContextCosts(context, spread(0.01), {1: spread(1.2), 4: spread(1.5)})
        for context in (64, 512)
    ),
    14,
    14,
)


@pytest.fixture
def store(tmp_path):
    return ProfileStore(tmp_path / "cache" / "profiles")


def test_a_profile_is_read_back_as_it_was(store):
    path = store.save(KEY, COSTS)
    assert store.load(KEY) == COSTS
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_no_profile_is_no_warning(store):
    assert store.load(KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        {"model": "x"},
        {"engine": "x"},
        {"version": "9"},
        {"threads": 1},
        {"isa": "portable"},
        {"kv_cache": "q8_0"},
    ],
    ids=str,
)
def test_a_profile_holds_for_its_key_alone(store, change):
    store.save(KEY, COSTS)
    other = replace(KEY, **change)
    assert store.load(other) is None
    # Not even when the file is moved there.
    store.path(KEY).replace(store.path(other))
    with pytest.warns(RuntimeWarning, match="made for something else"):
        assert store.load(other) is None


def damaged():
    good = json.loads(json.dumps({"format": 1, "key": asdict(KEY), "costs": asdict(COSTS)}))

    def but(change):
        document = json.loads(json.dumps(good))
        change(document)
        return json.dumps(document)

    def at(document):
        return document["costs"]["contexts"][0]

    return {
        "empty": "",
        "half": json.dumps(good)[:200],
        "no object": "[1, 2]",
        "null": "null",
        "nested": "[" * 100_000,
        "not text": b"\xff\xfe\x00",
        "too large": json.dumps(good) + " " * (1 << 20),
        "of another format": but(lambda d: d.update(format=2)),
        "without costs": but(lambda d: d.pop("costs")),
        "without contexts": but(lambda d: d["costs"].update(contexts=[])),
        "infinite": but(lambda d: at(d)["plain_s"].update(high=float("inf"))),
        "not a number": but(lambda d: at(d)["verify"]["1"].update(median=float("nan"))),
        "negative": but(lambda d: at(d)["verify"]["1"].update(low=-1.0)),
        "out of order": but(lambda d: at(d)["verify"]["1"].update(low=9.0)),
        "a text": but(lambda d: at(d)["verify"]["1"].update(median="1.2")),
        "a truth value": but(lambda d: at(d)["verify"]["1"].update(low=True)),
        "unequal widths": but(lambda d: at(d)["verify"].pop("1")),
        "no widths": but(lambda d: [c["verify"].clear() for c in d["costs"]["contexts"]]),
        "width 0": but(
            lambda d: [c["verify"].update({"0": c["verify"]["1"]}) for c in d["costs"]["contexts"]]
        ),
        "counts": but(lambda d: d["costs"].update(rows_compared=-1)),
    }


@pytest.mark.parametrize("content", damaged().values(), ids=damaged().keys())
def test_a_damaged_profile_is_ignored_with_a_warning(store, content):
    path = store.save(KEY, COSTS)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.warns(RuntimeWarning, match=rf"{path.name} is ignored: .*maglio probe"):
        assert store.load(KEY) is None
    store.save(KEY, COSTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.load(KEY) == COSTS


def test_a_folder_in_the_way_is_ignored_too(store):
    store.path(KEY).mkdir(parents=True)
    with pytest.warns(RuntimeWarning, match="is ignored"):
        assert store.load(KEY) is None


def test_a_write_that_fails_leaves_the_old_profile(store, monkeypatch):
    path = store.save(KEY, COSTS)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MaglioError, match="No space left"):
        store.save(KEY, replace(COSTS, rows_compared=1, rows_equal=1))
    assert store.load(KEY) == COSTS
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MaglioError, match="cannot write the profile"):
        ProfileStore(tmp_path / "file" / "profiles").save(KEY, COSTS)


def test_clear_removes_the_profile_and_says_whether_there_was_one(store):
    store.save(KEY, COSTS)
    assert store.clear(KEY)
    assert not store.clear(KEY)
    assert store.load(KEY) is None


def test_fingerprints_tell_files_apart_by_size_beginning_and_end(tmp_path):
    body = bytes(3 << 20)
    contents = [body, body + b"\0", b"x" + body[1:], body[:-1] + b"x", b"", b"x"]
    prints = set()
    for index, content in enumerate(contents):
        path = tmp_path / str(index)
        path.write_bytes(content)
        prints.add(fingerprint(path))
        assert fingerprint(path) == fingerprint(path)
    assert len(prints) == len(contents)


def test_fingerprints_are_of_all_parts_of_a_split_model(tmp_path):
    parts = [tmp_path / f"m-{n:05}-of-00003.gguf" for n in (1, 2, 3)]
    for part in parts:
        part.write_bytes(b"alike")
    first = parts[0]
    prints = {fingerprint(first)}
    for part in parts:
        part.write_bytes(b"other")
        prints.add(fingerprint(first))
    parts[2].unlink()
    prints.add(fingerprint(first))
    assert len(prints) == 5
    (tmp_path / "m-00004-of-00003.gguf").write_bytes(b"of no model")
    assert fingerprint(first) in prints


def test_fingerprints_of_a_part_alone_are_of_that_file(tmp_path):
    part = tmp_path / "m-00002-of-00003.gguf"
    part.write_bytes(b"x")
    (tmp_path / "other.gguf").write_bytes(b"x")
    (tmp_path / "m-00001-of-00003.gguf").write_bytes(b"y")
    assert fingerprint(part) == fingerprint(tmp_path / "other.gguf")


def test_a_loaded_engine_has_a_key(tiny):
    engine, path = tiny.engine("llama", "Q4_0"), tiny.path("llama", "Q4_0")
    key = ProfileKey.of(engine, path)
    assert key is not None
    assert (key.engine, key.threads, key.isa) == ("native", 1, engine.isa)
    assert key.kv_cache == "f16"
    assert key.model == fingerprint(path)

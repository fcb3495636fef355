"""References as users give them: text, ids, files, folders, index files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import maglio
from maglio import references, starting
from maglio._core import FrozenAutomaton
from maglio.cli import generate as cli_generate
from maglio.cli.app import app
from maglio.cli.terminal import summary
from maglio.decode import GenerationStats, SourceCounts
from maglio.draft.reference import save_index
from maglio.draft.source import DraftSource
from maglio.errors import IndexFileError, InvalidArgumentError, OutOfMemoryError
from maglio.references import index_files, index_reference, read_reference
from support.models import TINY, write_model


class Letters:
    """Every byte is a token; 0 ends a text."""

    n_vocab = 256
    eos_id = 0
    fingerprint = "letters"

    def encode(self, text, *, add_special=True, parse_special=False):
        assert not add_special
        return list(text if isinstance(text, bytes) else text.encode())


class Capitals(Letters):
    fingerprint = "capitals"


LETTERS = Letters()


def draft_after(index: FrozenAutomaton, text: str, limit: int = 99) -> bytes:
    cursor = index.cursor()
    cursor.advance_many(np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32))
    return bytes(cursor.draft(limit))


@pytest.mark.parametrize("document", ["abcd", [97, 98, 99, 100], (97, 98, 99, 100)])
def test_text_and_ids_are_indexed(document):
    assert draft_after(index_reference(document, LETTERS), "ab") == b"cd"


def test_an_index_is_taken_as_it_is():
    index = FrozenAutomaton(np.array([1], dtype=np.int32))
    assert index_reference(index, LETTERS) is index


@pytest.mark.parametrize("bad", ["", [], b"abc", 7, None, [-1], [1.5], ["a"]])
def test_what_is_no_reference_is_refused(bad):
    with pytest.raises(InvalidArgumentError, match=r"reference|token ids"):
        index_reference(bad, LETTERS)


def test_a_reference_larger_than_memory_is_refused(monkeypatch):
    monkeypatch.setattr(references, "available_memory", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="7 tokens needs"):
        index_reference([1] * 7, LETTERS)
    with pytest.raises(OutOfMemoryError, match="needs more than"):
        index_reference("a" * 7, LETTERS)


class Measured(Letters):
    """Remembers what it was given at a time."""

    def __init__(self):
        self.given = []

    def encode(self, text, *, add_special=True, parse_special=False):
        self.given.append(bytes(text))
        return super().encode(text, add_special=add_special)


TEXTS = {
    "prose": b"a line of words, and more\nanother line\n\n    indented\n" * 40,
    "one line": b"words without an end " * 90,
    "no space": "é€😀".encode() * 200,
    "blank": b"\n \t" * 700,
    "no character": b"\x80\xff" * 900,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_long_texts_are_encoded_in_pieces_of_bounded_size(monkeypatch, text):
    monkeypatch.setattr(references, "_PIECE", 100)
    tokenizer = Measured()
    index = index_reference(text.decode("utf-8", "surrogateescape"), tokenizer)
    assert b"".join(tokenizer.given) == text
    assert max(map(len, tokenizer.given)) <= 100
    assert min(map(len, tokenizer.given[:-1])) >= 46  # half, and at most a character less
    assert len(index) == len(text)


@pytest.mark.parametrize("name", ["prose", "one line", "no space"])
def test_pieces_end_where_words_do_or_characters(monkeypatch, name):
    monkeypatch.setattr(references, "_PIECE", 100)
    pieces = list(references._pieces(TEXTS[name]))
    for piece, following in itertools.pairwise(pieces):
        if name == "no space":
            piece.decode(), following.decode()
        else:
            assert not piece.endswith((b" ", b"\n\n"))
            assert following[:1].isalpha() or (following[:1] == b" " and following[1:2].isalpha())


def test_memory_is_checked_while_there_is_some(monkeypatch):
    monkeypatch.setattr(references, "_PIECE", 1000)
    monkeypatch.setattr(references, "available_memory", lambda: 10_000 * 160)
    tokenizer = Measured()
    with pytest.raises(OutOfMemoryError, match="indexing the reference needs more than"):
        index_reference("a" * 1_000_000, tokenizer)
    assert sum(map(len, tokenizer.given)) <= 10_000


def test_memory_is_checked_before_a_file_is_read(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a" * 5000)
    monkeypatch.setattr(references, "available_memory", lambda: 4000)
    monkeypatch.setattr(references, "_read", lambda _: pytest.fail("it was read"))
    with pytest.raises(OutOfMemoryError, match=r"a\.txt needs more than"):
        read_reference(tmp_path / "a.txt", LETTERS)


@pytest.fixture
def folder(tmp_path):
    for name, data in {
        "b.txt": b"second",
        "a/z.txt": b"fourth",
        "a.txt": b"first",
        "data.bin": b"x\0y",
        "empty.txt": b"",
        ".hidden": b"secret",
        ".git/config": b"secret",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_a_folder_stands_for_its_text_files_in_order(folder):
    seen = []
    index = index_files([folder], LETTERS, progress=lambda i, n, file: seen.append((i, n, file)))
    assert draft_after(index, "fir") == b"st\0second\0fourth"
    names = ["a.txt", "b.txt", "a/z.txt"]
    assert seen == [(i, 3, folder / name) for i, name in enumerate(names)]


def test_files_and_folders_are_joined_as_given(folder):
    index = index_files([folder / "b.txt", folder / "a"], LETTERS)
    assert draft_after(index, "sec") == b"ond\0fourth"


@pytest.mark.parametrize("name", ["data.bin", "empty.txt", "missing.txt", "none.maglio"])
def test_a_named_file_that_is_no_text_is_refused(folder, name):
    with pytest.raises(InvalidArgumentError, match=name):
        read_reference(folder / name, LETTERS)


def test_a_folder_without_text_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="no text files"):
        read_reference(tmp_path, LETTERS)


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 2), ("MAX_BYTES", 12)])
def test_a_reference_is_bounded(folder, monkeypatch, limit, value):
    monkeypatch.setattr(references, limit, value)
    with pytest.raises(InvalidArgumentError, match="at most"):
        read_reference(folder, LETTERS)
    assert len(read_reference(folder / "a", LETTERS)) == 6


def test_index_files_are_opened_and_bound_to_their_tokenizer(folder):
    path = folder / "docs.maglio"
    save_index(index_files([folder / "a.txt"], LETTERS), path, fingerprint=LETTERS.fingerprint)
    assert draft_after(read_reference(path, LETTERS), "fi") == b"rst"
    with pytest.raises(IndexFileError, match="made with the tokenizer 'letters', not 'capitals'"):
        read_reference(path, Capitals())
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(IndexFileError, match="truncated"):
        read_reference(path, LETTERS)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> maglio.Model:
    path: Path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, "llama", TINY["llama"], "Q4_0")
    return maglio.load(path, n_ctx=256, threads=1)


def test_the_model_drafts_from_references(model):
    plain = model.generate([1, 2, 3], max_tokens=40, speculation=False)
    out = model.generate(
        [1, 2, 3],
        max_tokens=40,
        references=[[9, 9], FrozenAutomaton(np.array([3, *plain.tokens], dtype=np.int32))],
    )
    assert out.tokens == plain.tokens
    assert out.stats.sources["reference:1"].accepted > 20
    names = [name for name in out.stats.sources if name != "history"]
    assert names == ["conversation", "reference:0", "reference:1"]
    stream = model.stream([1, 2, 3], max_tokens=40, references=[list(plain.tokens)])
    assert "reference:0" in {token.source for token in stream}


@pytest.mark.parametrize("bad", [[[]], [[300]], [7], [1, 2, 3], [[-5]]])
def test_a_bad_reference_is_refused_before_anything_is_generated(model, bad):
    with pytest.raises(InvalidArgumentError):
        model.stream([1, 2, 3], references=bad)


def test_references_do_not_go_with_a_source_of_ones_own(model):
    class Own(DraftSource):
        def propose(self, stream, limit):
            return None

        def observe(self, step):
            pass

    how = maglio.Speculation(source=Own())
    assert model.generate([1], max_tokens=3, speculation=how).stats.drafted == 0
    with pytest.raises(InvalidArgumentError, match="source of your own"):
        model.stream([1], speculation=how, references=[[1]])


def test_the_command_line_passes_references_on(model, folder, monkeypatch):
    monkeypatch.setattr(maglio, "load", lambda *_, **__: model)
    monkeypatch.setattr(cli_generate, "read_reference", lambda path, _: [ord(path.name[0])] * 5)
    # A tokenizer without a vocabulary encodes no prompt.
    monkeypatch.setattr(starting, "prompt_ids", lambda model, prompt: [1, 2, 3])
    args = ["generate", "-p", "x", "-n", "20", "--json", "--policy", "calibrated"]
    args += ["--reference", str(folder / "a.txt"), "--spec-ref", str(folder / "b.txt")]
    result = CliRunner().invoke(app, args, catch_exceptions=False)
    sources = json.loads(result.stdout)["stats"]["sources"]
    assert [name for name in sources if name != "history"] == [
        "conversation",
        "reference:0",
        "reference:1",
    ]


def test_an_index_is_built_on_the_command_line(folder, monkeypatch):
    monkeypatch.setattr("maglio.cli.index.ModelFile", lambda path: path)
    monkeypatch.setattr("maglio.cli.index.read_tokenizer", lambda _: LETTERS)
    output = folder / "docs.maglio"
    args = ["index", "build", str(folder), str(folder / "b.txt"), "-m", "m", "-o", str(output)]
    result = CliRunner().invoke(app, args, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "4 of 4" in result.stderr
    assert "26 tokens" in result.stderr
    assert draft_after(read_reference(output, LETTERS), "fou") == b"rth\0second"
    with pytest.raises(InvalidArgumentError, match=r"named \*\.maglio"):
        CliRunner().invoke(app, [*args[:-1], "docs.txt"], catch_exceptions=False)


def stats(sources: dict[str, SourceCounts]) -> GenerationStats:
    drafted = sum(counts.drafted for counts in sources.values())
    return GenerationStats(
        steps=2,
        verify_steps=1,
        drafted=drafted,
        accepted=sum(counts.accepted for counts in sources.values()),
        committed=5,
        prompt_tokens=1,
        prefill_s=1.0,
        decode_s=1.0,
        overhead_s=0.0,
        sources=sources,
    )


def test_the_summary_counts_by_source_when_there_are_several():
    several = {
        "conversation": SourceCounts(10, 4),
        "reference:0": SourceCounts(6, 6, muted=True),
        "recycling": SourceCounts(0, 0),
    }
    expected = "accepted 10/16 (62%): conversation 4/10, reference:0 6/6 muted |"
    assert expected in summary(stats(several))
    assert "(40%) |" in summary(stats({"conversation": SourceCounts(10, 4)}))


@pytest.mark.parametrize(
    "arguments",
    [{"references": None}, {"references": [3]}, {"stop": 3}, {"sampling": "x"}, {"prompt": None}],
    ids=str,
)
def test_senseless_arguments_of_a_generation_are_refused(model, arguments):
    with pytest.raises(InvalidArgumentError):
        model.generate(**{"prompt": [1, 2], **arguments})


def test_a_binary_file_is_refused_for_what_it_is_and_a_misnamed_index_too(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(b"a\0b")
    with pytest.raises(InvalidArgumentError, match="NUL bytes"):
        read_reference(path, LETTERS)
    index = tmp_path / "docs.idx"
    save_index(FrozenAutomaton(np.array([1, 2, 3], dtype=np.int32)), index, fingerprint="x")
    with pytest.raises(InvalidArgumentError, match=r"must be named \*\.maglio"):
        read_reference(index, LETTERS)

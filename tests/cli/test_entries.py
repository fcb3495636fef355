"""Messages are told from commands, and fenced ones are messages to the letter."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.cli.entry import Entry, entered, quoted
from maglio.cli.line_reader import PipeReader
from maglio.errors import InvalidArgumentError


def entries(text):
    reader = PipeReader(io.BytesIO(text.encode("utf-8", "surrogateescape")))
    return list(iter_entries(reader))


def iter_entries(reader):
    with suppress(EOFError):
        while True:
            yield reader.read()


def said(text):
    return [entry.message for entry in entries(text) if entry.command is None]


@pytest.mark.parametrize(
    "message",
    [
        "/undo",
        "// a",
        "/* c */",
        "/usr/bin/env python",
        "  indented",
        "one\n\n\ntwo",
        "\nbegins and ends with empty lines\n",
        '    """A docstring."""\n    x = 1',
        'x = """in the middle""" + y',
        "trailing space ",
        "\udcff",
    ],
)
def test_a_fenced_message_is_a_message_to_the_letter(message):
    (entry,) = entries(f'"""\n{message}\n"""\n')
    assert (entry.command, entry.message) == (None, message)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('"""hi"""\nnext\n', ["hi", "next"]),
        ('"""hi"""  \nnext\n', ["hi", "next"]),
        ('"""/undo"""\nnext\n', ["/undo", "next"]),
        ('"""\nhi\n"""  \nnext\n', ["hi", "next"]),
        ('"""\nhi\n"""\r\nnext\r\n', ["hi", "next"]),
        ('"""hi\nyou\n"""\nnext\n', ["hi\nyou", "next"]),
        ('"""\nhi\n"""', ["hi"]),
        ('""""""\nnext\n', ["next"]),
        ('"""\n"""\nnext\n', ["next"]),
    ],
)
def test_a_fence_ends_where_it_should(text, messages):
    assert said(text) == messages


@pytest.mark.parametrize("text", ['one\n"""two\nthree\n', '"""', '"""\nhi\n """\n'])
def test_a_fence_without_an_end_is_an_error_that_names_its_line(text):
    reader = PipeReader(io.BytesIO(text.encode()))
    line = 1 + text.split('"""')[0].count("\n")
    if line > 1:
        reader.read()
    with pytest.raises(InvalidArgumentError, match=f"line {line} .* not sent"):
        reader.read()
    with pytest.raises(EOFError):
        reader.read()


def test_a_byte_order_mark_is_no_part_of_the_first_line():
    assert said("\ufeffhi\n\ufeffyou\n") == ["hi", "\ufeffyou"]
    assert entries("\ufeff/help\n")[0].command == ("help", "")
    assert said('\ufeff"""\nhi\n"""\n') == ["hi"]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/undo", ("undo", "")),
        ("/undo 2 ", ("undo", "2")),
        ("/nonsense", ("nonsense", "")),
        ("/system be\nbrief", ("system", "be\nbrief")),
        ("/usr/bin", None),
        ("/* c */", None),
        ("/", None),
        ("/ undo", None),
        ("//undo", None),
        ("hi /undo", None),
    ],
)
def test_a_command_is_a_slash_and_letters(line, command):
    assert Entry(line).command == command


@pytest.mark.parametrize(
    ("line", "message"),
    [("//undo", "/undo"), ("//undo 2", "/undo 2"), ("// a", "// a"), ("/usr/bin", "/usr/bin")],
)
def test_a_second_slash_makes_a_message_of_a_command_only(line, message):
    assert Entry(line).message == message


PIECES = ["/", "//", "undo", "/clear", " ", "\n", '"""', "x", "*"]


@pytest.mark.parametrize(
    ("message", "typed"),
    [("hi", "hi"), ("/undo", "//undo"), ("//undo", '"""\n//undo\n"""'), ("/usr/bin", "/usr/bin")],
)
def test_a_message_is_quoted_only_if_it_has_to_be(message, typed):
    assert quoted(message) == typed


@given(parts=st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
def test_a_message_that_is_brought_back_is_never_a_command(parts):
    message = "".join(parts)
    entry = entered(quoted(message))
    assert entry.command is None
    if '"""' not in message:
        assert entry.message.strip("\n") == message.strip("\n")

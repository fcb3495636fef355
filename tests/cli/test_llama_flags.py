"""Every flag that docs/cli.md lists parses as it says, and none is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from maglio.cli.app import app
from maglio.cli.llama_flags import FOREIGN
from maglio.errors import InvalidArgumentError

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
GROUP = typer.main.get_command(app)
VALUES = {"N": "1", "X": "0.5", "ID+BIAS": "7+1", "JSON": "{}", "LETTERS": "kpt"}


def documented(heading):
    """The flags of a section, each with a value it may have."""
    _, _, rest = DOCUMENT.partition(f"## {heading}\n")
    section = rest.partition("\n## ")[0]
    rows = section.split("\n|---|---|\n", 1)[1]
    for code in re.findall(r"`(-[a-zA-Z-][^`]*)`", rows):
        flag, _, value = code.replace("\\|", "|").partition(" ")
        choice = value.strip("[]").split("|")[0]
        yield (flag, VALUES.get(value, choice)) if value else (flag,)


def parse(command, *words):
    return GROUP.commands[command].make_context(command, list(words))


COMMON = list(documented("Options of generate and chat"))
SHARED = {  # with serve, which has nothing to say and shows nothing
    flag
    for parameter in (*GROUP.commands["generate"].params, *GROUP.commands["chat"].params)
    for flag in (*parameter.opts, *parameter.secondary_opts)
} & {
    flag
    for parameter in GROUP.commands["serve"].params
    for flag in (*parameter.opts, *parameter.secondary_opts)
}
OWN = {
    "serve": [words for words in COMMON if words[0] in SHARED]
    + list(documented("Options of serve")),
    "generate": COMMON + list(documented("Options of generate")),
    "chat": COMMON + list(documented("Options of chat")),
}
IGNORED = list(documented("llama.cpp's flags that have no meaning here"))
REFUSED = list(documented("llama.cpp's flags that are refused"))


@pytest.mark.parametrize(("command", "words"), [(c, w) for c in OWN for w in OWN[c]])
def test_an_option_parses_and_is_asked_for(command, words, capsys):
    context = parse(command, *words)
    sources = {context.get_parameter_source(name).name for name in context.params}
    assert "COMMANDLINE" in sources
    assert not context.args
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", IGNORED)
def test_a_flag_without_meaning_is_accepted_with_one_note(words, capsys):
    command = "generate" if words[0] in ("-st", "--single-turn") else "chat"
    context = parse(command, "-n", "3", *words, "-c", "8")
    assert (context.params["max_tokens"], context.params["n_ctx"]) == (3, 8)
    assert context.args == []
    notes = capsys.readouterr().err.splitlines()
    silent = FOREIGN[words[0]].silent
    assert notes == ([] if silent else [f"maglio: note: {words[0]} has no meaning here; ignored"])


@pytest.mark.parametrize("words", REFUSED)
def test_a_flag_that_would_change_the_text_is_refused_by_name(words):
    command = "chat" if words[0] not in OWN_NAMES["chat"] else "generate"
    with pytest.raises(InvalidArgumentError, match=f"{words[0]} cannot be used"):
        parse(command, *words)


OWN_NAMES = {
    name: {
        flag
        for parameter in GROUP.commands[name].params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    for name in OWN
}


def test_no_flag_is_left_out_of_the_documentation():
    for name, flags in OWN.items():
        assert {words[0] for words in flags} | {"--help", "-h"} >= OWN_NAMES[name]
    assert {words[0] for words in IGNORED + REFUSED} == set(FOREIGN)


def test_one_note_names_all_that_is_ignored(capsys):
    parse("generate", "-ngl", "99", "-p", "x", "-fa", "--mlock")
    assert (
        capsys.readouterr().err
        == "maglio: note: -ngl, -fa, --mlock have no meaning here; ignored\n"
    )


@pytest.mark.parametrize("word", ["-xyz", "-sx", "-nst", "-pHello", "-n12x", "-es"])
def test_short_options_are_not_read_as_bundles(word):
    with pytest.raises(InvalidArgumentError, match=f"there is no option {word}"):
        parse("generate", "-p", "x", word)


def test_words_that_look_like_options_can_be_values():
    assert parse("generate", "-p", "-st").params["prompt"] == "-st"
    assert parse("generate", "-p", "--grammar").params["prompt"] == "--grammar"
    assert parse("generate", "-p", "x", "-r", "-xyz").params["stop"] == ["-xyz"]
    assert parse("generate", "-n", "-1", "--seed", "-1").params["max_tokens"] == -1
    assert parse("generate", "-n128").params["max_tokens"] == 128
    assert parse("generate", "--top_k", "5").params["top_k"] == 5
    assert parse("generate", "--top_k=5").params["top_k"] == 5


@pytest.mark.parametrize(
    ("words", "color", "prompt"),
    [
        (("--color", "-p", "x"), "on", "x"),
        (("--color", "off", "-p", "x"), "off", "x"),
        (("-p", "x", "--color"), "on", "x"),
        (("-p", "x"), "auto", "x"),
    ],
)
def test_color_needs_no_value(words, color, prompt):
    params = parse("generate", *words).params
    assert (params["color"], params["prompt"]) == (color, prompt)


@pytest.mark.parametrize("words", [("--mirostat", "0"), ("-ctk", "f16"), ("--dynatemp-range", "0")])
def test_a_value_that_asks_for_nothing_is_accepted(words, capsys):
    assert parse("generate", *words, "-p", "x").params["prompt"] == "x"
    assert capsys.readouterr().err == ""

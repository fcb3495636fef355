"""Which grammars are refused, and what is kept of those that are not."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from maglio.errors import GrammarError, InvalidArgumentError, MaglioError
from maglio.grammar import Grammar, GrammarCompiler, compiler
from maglio.grammar.lark import json_value
from maglio.text import from_metadata
from support.chat_model import vocabulary

TOKENIZER = from_metadata(vocabulary())


@pytest.fixture(scope="module")
def grammars():
    return GrammarCompiler(TOKENIZER, TOKENIZER.n_vocab)


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (Grammar.regex("a("), "regex"),
        (Grammar.regex("a(?=b)"), "look-around"),
        (Grammar.json_schema({"type": "strange"}), "strange"),
        (Grammar.json_schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (Grammar.json_schema({"$ref": "https://example.com/x"}), "example.com"),
        (Grammar.json_schema({"allOf": [{"const": 1}, {"const": 2}]}), "unsatisfiable"),
        (Grammar("json_schema", "{"), "EOF"),
        (Grammar.lark("begin: a"), "start"),
        (Grammar.lark('start: "a" <|nothing|>'), "nothing"),
        (Grammar.lark(""), "no start rule"),
        (Grammar.gbnf('rule ::= "a"'), "root"),
        (Grammar.gbnf("root ::= other"), "other"),
        (Grammar.gbnf("root ::= " + "(" * 3000 + '"a"' + ")" * 3000), "nested"),
        (Grammar.regex("a").after("start: no_rule"), "no_rule"),
    ],
)
def test_a_grammar_that_cannot_be_compiled_is_refused_in_the_library_s_words(
    grammars, grammar, message
):
    for _ in range(2):
        with pytest.raises(GrammarError, match=f"(?is){grammar.kind} grammar.*{message}") as caught:
            grammars.start(grammar)
        assert len(str(caught.value)) < 2500
        assert "non-verbose" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 999_983},
        {"type": "number", "multipleOf": 0.999983},
        {"allOf": [{"type": "integer", "multipleOf": 997}, {"multipleOf": 1009}]},
        {"type": "array", "items": {"anyOf": [{"multipleOf": 2**61 - 1, "type": "integer"}]}},
    ],
)
def test_numbers_that_would_take_minutes_are_refused_or_left_out(grammars, schema):
    for grammar in (
        Grammar.json_schema(schema),
        Grammar("json_schema", json.dumps(schema)),
    ):
        with pytest.raises(GrammarError, match="multipleOf"):
            grammars.start(grammar)
    with pytest.raises(GrammarError, match="multipleOf"):
        json_value(schema, lenient=False)
    assert '"multipleOf"' not in json_value(schema, lenient=True)


def test_numbers_of_a_size_that_people_use_are_kept(grammars):
    named = {"type": "object", "properties": {"multipleOf": {"const": {"multipleOf": 999_983}}}}
    cheap = {"anyOf": [{"type": "number", "multipleOf": n} for n in (0.25, 1_000_000, 7, 60)]}
    for schema in (named, cheap):
        grammars.start(Grammar.json_schema(schema))
        assert json.dumps(schema)[1:-1] in json_value(schema, lenient=True)


def test_deep_schemas_are_refused():
    schema = {"type": "null"}
    for _ in range(400):
        schema = {"anyOf": [schema]}
    with pytest.raises(GrammarError, match="cannot be compiled: recursion"):
        GrammarCompiler(TOKENIZER, 300).start(Grammar.json_schema(schema))
    for _ in range(100_000):
        schema = {"anyOf": [schema]}
    with pytest.raises(GrammarError, match="not JSON"):
        Grammar.json_schema(schema)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Grammar.regex("a" * ((1 << 20) + 1)), GrammarError, "1048577 bytes"),
        (lambda: Grammar.regex("\ud800"), GrammarError, "surrogate"),
        (lambda: Grammar.regex(b"a"), InvalidArgumentError, "is a bytes"),
        (lambda: Grammar("xml", "a"), InvalidArgumentError, "kind is 'xml'"),
        (lambda: Grammar.json_schema([1]), InvalidArgumentError, "is a list"),
        (lambda: Grammar.json_schema({"const": float("nan")}), GrammarError, "not JSON"),
        (lambda: Grammar.json_schema({"const": {1, 2}}), GrammarError, "not JSON"),
        (lambda: Grammar.json_schema(False), GrammarError, "no value"),
        (lambda: Grammar.choice([]), InvalidArgumentError, "empty"),
        (lambda: Grammar.choice("ab"), InvalidArgumentError, "texts"),
        (lambda: Grammar.choice(["a", 1]), InvalidArgumentError, "texts"),
    ],
)
def test_a_grammar_that_can_never_be_one_is_refused_at_once(make, error, message):
    with pytest.raises(error, match=message):
        make()


def spelled(grammars, grammar, text):
    constraint = grammars.start(grammar)
    tokens = [*TOKENIZER.encode(text), TOKENIZER.eos_id]
    return constraint.admissible(tokens) == len(tokens)


@pytest.mark.parametrize(
    ("grammar", "texts", "others"),
    [
        (Grammar.gbnf('root ::= "a" item{2,3}\nitem ::= [xy] | "é"'), ["axé", "axyx"], ["ax", "a"]),
        (Grammar.lark('start: "a" B+\nB: /[bc]/'), ["ab", "abcb"], ["a", "abd"]),
        (Grammar.regex("a/b\\d+"), ["a/b12"], ["a/b", "ab1", "a/b1x"]),
        (
            Grammar.choice(['say "é\\n"\n', "", "\u2028\x7f\x00", "🙂"]),
            ['say "é\\n"\n', "", "\u2028\x7f\x00", "🙂"],
            ["say", "\n"],
        ),
        (Grammar.json_schema(True), ["1", '{"a": [1, 2]}', "null"], ["{", "a", ""]),
        (Grammar.json_schema({"type": "object", "properties": {"b": True, "a": True}}),
         ['{"b": 1, "a": 2}', '{}', '{"c": 1}'], ['{"a": 2, "b": 1}']),
    ],
    ids=lambda value: value.kind if isinstance(value, Grammar) else "",
)  # fmt: skip
def test_each_kind_of_grammar_accepts_its_texts(grammars, grammar, texts, others):
    assert [spelled(grammars, grammar, text) for text in texts] == [True] * len(texts)
    assert [spelled(grammars, grammar, text) for text in others] == [False] * len(others)


def test_a_grammar_is_compiled_once_and_streams_do_not_meet(grammars, monkeypatch):
    grammar = Grammar.regex("(ab)+ once")
    first, second = grammars.start(grammar), grammars.start(Grammar.regex("(ab)+ once"))
    assert len([kept for kept in grammars._kept if kept == grammar]) == 1
    a, b = (TOKENIZER.encode(x)[0] for x in "ab")
    first.extend([a, b])
    first.mask()
    assert second.length == 0
    np.testing.assert_array_equal(second.mask(), grammars.start(grammar).mask())
    assert second.admissible([b]) == 0
    assert first.admissible([b]) == 0
    assert first.admissible([a]) == 1


def test_what_is_kept_has_a_limit(monkeypatch):
    monkeypatch.setattr(compiler, "MAX_KEPT", 3)
    monkeypatch.setattr(compiler, "MAX_KEPT_SOURCE", 60)
    grammars = GrammarCompiler(TOKENIZER, TOKENIZER.n_vocab)
    texts = ["a", "b", "c", "d"]
    for text in [*texts, "b", "e"]:
        grammars.start(Grammar.regex(text))
    assert [kept.source for kept in grammars._kept] == ["d", "b", "e"]
    grammars.start(Grammar.regex("a" * 59))
    assert [kept.source for kept in grammars._kept] == ["e", "a" * 59]
    assert grammars._kept_source == 60
    long = grammars.start(Grammar.regex("a" * 100))
    assert not grammars._kept
    assert long.admissible(TOKENIZER.encode("a" * 100)) == 100


def test_a_model_without_an_end_is_refused():
    values = vocabulary()
    names = [*values["tokenizer.ggml.tokens"][:297], "<a>", "<b>", "<c>"]
    no_end = {"tokenizer.ggml.eos_token_id": 299, "tokenizer.ggml.tokens": names}
    tokenizer = from_metadata({**values, **no_end})
    with pytest.raises(GrammarError, match="no token that ends"):
        GrammarCompiler(tokenizer, 299).start(Grammar.regex("a"))  # the engine lacks it


def test_the_base_install_can_make_grammars_and_says_what_starting_them_needs():
    program = """
import sys
sys.modules["llguidance"] = None
from maglio.errors import MaglioError
from maglio.grammar import Grammar, GrammarCompiler
grammar = Grammar.regex("a")
try:
    GrammarCompiler(None, 5).start(grammar)
except MaglioError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'pip install "maglio[server]"' in done.stdout, done.stderr
    assert issubclass(GrammarError, MaglioError)

"""Masks say exactly what may come, and a constraint can be led anywhere and back."""

from __future__ import annotations

import json
import random
from functools import cache

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from llguidance import LLParserLimits

from maglio.errors import GrammarError, InvalidArgumentError
from maglio.gguf import ModelFile
from maglio.grammar import Grammar, GrammarCompiler
from maglio.text import from_metadata
from support.chat_model import vocabulary
from support.real_models import NAMES, real_model_path
from support.regex_twin import regexes
from support.spm_vocabulary import SPM

PADDING = 45
"""Ids of the engine past the tokenizer's."""


@cache
def tokenizer_of(kind):
    return from_metadata({"bpe": vocabulary(), "spm": SPM}[kind])


@cache
def compiler_of(kind):
    tokenizer = tokenizer_of(kind)
    return GrammarCompiler(tokenizer, tokenizer.n_vocab + PADDING)


KINDS = st.sampled_from(["bpe", "spm"])


def ids(mask):
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def expected_ids(tokenizer, regex, text):
    """By trying every token."""
    here = regex.after(text)
    may_come = {
        token
        for token in range(tokenizer.n_vocab)
        if not tokenizer.is_control(token)
        and tokenizer.token_bytes(token)
        and here.after(tokenizer.token_bytes(token)).possible
    }
    return may_come | tokenizer.eog_ids if here.nullable or not may_come else may_come


@settings(max_examples=150)
@given(kind=KINDS, regex=regexes("abné \n"), data=st.data())
def test_a_mask_allows_the_tokens_that_a_regular_expression_can_go_on_with(kind, regex, data):
    tokenizer = tokenizer_of(kind)
    constraint = compiler_of(kind).start(Grammar.regex(regex.pattern))
    text = b""
    for _ in range(6):
        mask = constraint.mask()
        assert mask.dtype == np.int32
        assert mask.shape == (-(-(tokenizer.n_vocab + PADDING) // 32),)
        expected = expected_ids(tokenizer, regex, text)
        if ids(mask) != expected:  # what is certain is split in one way
            assert ids(mask) == set(constraint.forced()[:1])
            assert ids(mask) < expected
        token = data.draw(st.sampled_from(sorted(ids(mask))))
        constraint.extend([token])
        if token in tokenizer.eog_ids:
            assert ids(constraint.mask()) == tokenizer.eog_ids
            return
        text += tokenizer.token_bytes(token)


GRAMMARS = (
    Grammar.regex("(a|nd)*(é|b)*"),
    Grammar.lark('start: "a" (<|im_start|> "nd")* <|endoftext|>?'),
    Grammar.lark("start: (/[abn]*/ <|im_start|>)+ <[*]>"),
    Grammar.json_schema({"enum": [["an", "en"], {"an": 12}, -1.5]}),
    Grammar.choice(["an", "and", "", "bé"]),
    Grammar.lark('start: "a" <[310-340]> | "b" <[310]>'),  # padding, so there is no way on
)


@settings(max_examples=150)
@given(grammar=st.sampled_from(GRAMMARS), seed=st.integers(0, 2**32))
def test_led_forth_and_back_it_is_what_a_new_one_is(grammar, seed):
    rng = random.Random(seed)
    compiler, ends = compiler_of("bpe"), tokenizer_of("bpe").eog_ids
    constraint = compiler.start(grammar)
    tokens = []
    for _ in range(30):
        if rng.random() < 0.35:
            length = rng.randint(0, len(tokens))
            constraint.truncate(length)
            del tokens[length:]
        else:
            more = []
            for _ in range(rng.randint(1, 3)):
                follower = compiler.start(grammar)
                follower.extend([*tokens, *more])
                allowed = sorted(ids(follower.mask()))
                more.append(rng.choice([*allowed, rng.choice(sorted(ends & {*allowed}) or [0])]))
                if more[-1] not in allowed:
                    more.pop()
            constraint.extend(more)
            tokens += more
        if rng.random() < 0.5:
            constraint.forced()
            constraint.admissible([rng.randrange(300) for _ in range(3)])
        new = compiler.start(grammar)
        new.extend(tokens)
        assert constraint.length == len(tokens)
        np.testing.assert_array_equal(constraint.mask(), new.mask())
        assert constraint.forced() == new.forced()


@settings(max_examples=150)
@given(grammar=st.sampled_from(GRAMMARS), seed=st.integers(0, 2**32))
def test_a_draft_is_admissible_as_far_as_it_can_be_followed_token_by_token(grammar, seed):
    rng = random.Random(seed)
    constraint = compiler_of("bpe").start(grammar)
    guide = compiler_of("bpe").start(grammar)
    for _ in range(rng.randint(0, 6)):
        allowed = sorted(ids(guide.mask()))
        guide.extend([rng.choice(allowed)])
    draft = []
    start = rng.randint(0, guide.length)
    walk = guide._tokens
    constraint.extend(walk[:start])
    draft = walk[start:] + rng.choices(range(-1, 350), k=rng.randint(0, 3))
    n = constraint.admissible(draft)
    constraint_mask = constraint.mask()
    one_by_one = 0
    for token in draft:
        if token < 0 or token not in ids(constraint.mask()):
            break
        constraint.extend([token])
        one_by_one += 1
    assert n == one_by_one
    constraint.truncate(start)
    np.testing.assert_array_equal(constraint.mask(), constraint_mask)


@settings(max_examples=150)
@given(kind=KINDS, regex=regexes("abn \n"), data=st.data())
def test_what_is_forced_may_come_and_nothing_else_is_left_to_say(kind, regex, data):
    tokenizer = tokenizer_of(kind)
    constraint = compiler_of(kind).start(Grammar.regex(regex.pattern))
    text = b""
    for _ in range(3):
        forced = constraint.forced()
        assert constraint.admissible(forced) == len(forced)
        here = regex.after(text)
        for token in forced:
            if token in tokenizer.eog_ids:
                break
            for byte in tokenizer.token_bytes(token):
                others = set(b"abn \n") - {byte}
                assert not here.nullable
                assert not any(here.after_byte(other).possible for other in others)
                here = here.after_byte(byte)
        token = data.draw(st.sampled_from(sorted(ids(constraint.mask()))))
        constraint.extend([token])
        if token in tokenizer.eog_ids:
            return
        text += tokenizer.token_bytes(token)


def values(depth):
    leaves = st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("string"), "minLength": st.integers(0, 2), "maxLength": st.just(4)}
        ),
        st.just({"type": "string", "pattern": "^[ab]{1,3}n?$"}),
        st.fixed_dictionaries(
            {"type": st.just("integer"), "minimum": st.integers(-20, 5), "maximum": st.just(30)}
        ),
        st.just({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["null", "boolean"]}]),
        st.lists(
            st.none() | st.booleans() | st.integers(-9, 9) | st.text('abé"\\\n', max_size=3),
            min_size=1,
            max_size=3,
            unique_by=repr,
        ).map(lambda values: {"enum": values}),
        st.just({"const": {"a": ["b"]}}),
    )
    if depth == 0:
        return leaves
    inner = values(depth - 1)
    return st.one_of(
        leaves,
        st.fixed_dictionaries(
            {
                "type": st.just("array"),
                "items": inner,
                "minItems": st.integers(0, 1),
                "maxItems": st.integers(1, 2),
            }
        ),
        st.tuples(st.dictionaries(st.text("an", min_size=1), inner, max_size=3), st.booleans()).map(
            lambda made: {
                "type": "object",
                "properties": made[0],
                "required": list(made[0]) if made[1] else list(made[0])[:1],
                "additionalProperties": False,
            }
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options}),
    )


@settings(max_examples=100)
@given(kind=KINDS, schema=values(2), seed=st.integers(0, 2**32))
def test_whatever_comes_under_a_schema_is_json_that_it_accepts(kind, schema, seed):
    rng = random.Random(seed)
    tokenizer = tokenizer_of(kind)
    constraint = compiler_of(kind).start(Grammar.json_schema(schema))
    tokens = []
    while len(tokens) < 1500:
        allowed = sorted(ids(constraint.mask()))
        ends = [token for token in allowed if token in tokenizer.eog_ids]
        if ends and rng.random() < 0.7:
            break
        token = rng.choice(allowed)
        tokens.append(token)
        constraint.extend([token])
        if token in tokenizer.eog_ids:
            tokens.pop()
            break
    else:
        assume(False)
    text = tokenizer.decode(tokens, continues=True)
    value = json.loads(text)
    jsonschema.validate(value, schema)
    assert "\n" not in text


def test_a_json_object_is_written_on_one_line():
    compiler, tokenizer = compiler_of("bpe"), tokenizer_of("bpe")
    constraint = compiler.start(Grammar.json_object())
    text = '{"an": [1, {"é": null}], "": "x"}'
    tokens = tokenizer.encode(text)
    assert constraint.admissible([*tokens, tokenizer.eos_id]) == len(tokens) + 1
    for other in ('{"an":1}', '{"an": [1,2]}', '{ "an": 1}', '{\n"an": 1}', "[1]"):
        assert constraint.admissible(tokenizer.encode(other)) < len(tokenizer.encode(other))


def test_a_token_that_may_not_come_changes_nothing():
    compiler = compiler_of("bpe")
    constraint = compiler.start(Grammar.regex("ab*"))
    a, b, c = (tokenizer_of("bpe").encode(x)[0] for x in "abc")
    constraint.extend([a])
    before = constraint.mask()
    for wrong in ([b, c], [c], [-1], [b, 10**6], [b, 310]):
        with pytest.raises(InvalidArgumentError, match="may not come next"):
            constraint.extend(wrong)
        assert constraint.length == 1
        np.testing.assert_array_equal(constraint.mask(), before)
    constraint.extend([b, b])
    assert constraint.length == 3


def test_a_mask_belongs_to_the_caller():
    constraint = compiler_of("bpe").start(Grammar.regex("a"))
    for _ in range(2):
        constraint.mask()[:] = 0
    assert ids(constraint.mask()) == {tokenizer_of("bpe").encode("a")[0]}
    constraint.extend(tokenizer_of("bpe").encode("a"))
    constraint.mask()[:] = 0
    assert ids(constraint.mask()) == tokenizer_of("bpe").eog_ids


def test_an_opening_comes_before_a_grammar():
    compiler, tokenizer = compiler_of("bpe"), tokenizer_of("bpe")
    grammar = Grammar.json_schema({"enum": [1]}).after("start: /[a-z ]*/ <|im_start|>")
    constraint = compiler.start(grammar)
    start = tokenizer.control_tokens["<|im_start|>"]
    tokens = [*tokenizer.encode("an end"), start, *tokenizer.encode("1"), tokenizer.eos_id]
    assert constraint.admissible(tokens) == len(tokens)
    assert constraint.admissible(tokenizer.encode("1")) == 0


def test_a_word_that_goes_on_is_not_forced_in_halves():
    tokenizer = tokenizer_of("bpe")
    constraint = compiler_of("bpe").start(Grammar.choice(["ban", "bar"]))
    an, a = tokenizer.encode("an"), tokenizer.encode("a")
    assert len(an) == len(a) == 1
    assert constraint.forced() == tokenizer.encode("b")  # `an` may be one token


def test_a_word_is_forced_in_the_tokens_of_its_place():
    tokenizer = tokenizer_of("spm")
    assert tokenizer.adds_space_prefix
    constraint = compiler_of("spm").start(Grammar.choice(["ab ab", "ab a"]))
    assert tokenizer.decode(constraint.forced(), continues=True) == "ab"
    assert constraint.forced() == tokenizer.encode("ab", add_special=False, continues=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_vocabulary_spells_what_a_schema_wants(name):
    file = ModelFile(real_model_path(name))
    tokenizer = from_metadata(file.metadata)
    compiler = GrammarCompiler(tokenizer, tokenizer.n_vocab)
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    text = json.dumps({"name": 'Ada "von" L\u00f8vel\u00e5s', "age": 37}, ensure_ascii=False)
    written = tokenizer.encode(text, add_special=False, continues=True)
    constraint = compiler.start(Grammar.json_schema(schema))
    assert constraint.admissible([*written, tokenizer.eos_id]) == len(written) + 1
    n_forced = 0
    for i, token in enumerate(written):
        forced = constraint.forced()
        assert forced == written[i : i + len(forced)]  # split as the tokenizer does
        n_forced += bool(forced)
        mask = ids(constraint.mask())
        assert not any(tokenizer.is_control(other) for other in mask - tokenizer.eog_ids)
        constraint.extend([token])
    assert n_forced >= 5
    assert ids(constraint.mask()) == tokenizer.eog_ids


def test_a_limit_in_the_middle_is_an_error_and_not_the_end(monkeypatch):
    limits = LLParserLimits(step_lexer_fuel=30, verbose_errors=False)
    monkeypatch.setattr("maglio.grammar.source.LIMITS", limits)
    tokenizer = tokenizer_of("bpe")
    compiler = GrammarCompiler(tokenizer, tokenizer.n_vocab)
    constraint = compiler.start(Grammar.regex("a(b|(c|d)*a(c|d){9}|é*n)"))
    constraint.extend(tokenizer.encode("a"))
    for _ in range(2):
        with pytest.raises(GrammarError, match="cannot be followed: lexer error"):
            constraint.mask()


def test_where_the_vocabulary_has_no_way_on_a_generation_ends():
    values = vocabulary()
    names = [
        name if i >= 297 or not {*"nN"} & {*name} else f"unused {i}"
        for i, name in enumerate(values["tokenizer.ggml.tokens"])
    ]
    kinds = np.array([5 if "unused" in name else 1 for name in names[:297]] + [3] * 3, np.int32)
    changes = {"tokenizer.ggml.tokens": names, "tokenizer.ggml.token_type": kinds}
    tokenizer = from_metadata({**values, **changes})
    compiler = GrammarCompiler(tokenizer, 300)
    a = tokenizer.encode("a")[0]
    for grammar in (Grammar.choice(["an", "anne"]), Grammar.choice(["an", "aNx", "aNy"])):
        constraint = compiler.start(grammar)
        assert ids(constraint.mask()) == {a}
        assert constraint.admissible([a, tokenizer.eos_id]) == 2
        constraint.extend([a])
        assert ids(constraint.mask()) == tokenizer.eog_ids
        assert constraint.forced() in ([], sorted(tokenizer.eog_ids))
        constraint.truncate(0)
        assert ids(constraint.mask()) == {a}


def lead(constraint, tokens):
    for token in tokens:
        constraint.extend([token])
        constraint.forced()
        constraint.mask()


@pytest.mark.parametrize("regex", ["b+|a{1000000000}", "b(b+|(ab){1000000000})?"])
def test_what_drafts_and_other_generations_use_up_of_a_limit_ends_no_generation(regex):
    tokenizer = tokenizer_of("bpe")
    compiler = GrammarCompiler(tokenizer, tokenizer.n_vocab)
    [a], [b] = tokenizer.encode("a"), tokenizer.encode("b")
    fails, drafting, beside = (compiler.start(Grammar.regex(regex)) for _ in range(3))
    text = [b] * 5
    masks = []
    for constraint in (drafting, beside):
        constraint.extend(text[:2])
    with pytest.raises(GrammarError, match="too many"):
        lead(fails, [a] * 20 if regex.startswith("b+") else [b] + [a, b] * 10)
    drafting.admissible([b, b])
    drafting.forced()
    later, again = (compiler.start(Grammar.regex(regex)) for _ in range(2))
    again.extend(text)  # all at once, as after an interrupt
    for constraint in (drafting, beside, later, again):
        for token in text[constraint.length :]:
            assert token in ids(constraint.mask())
            constraint.extend([token])
        masks.append(constraint.mask().tolist())
        constraint.truncate(1)
        masks.append(constraint.mask().tolist())
    assert masks == masks[:2] * 4
    with pytest.raises(InvalidArgumentError, match="may not come next"):
        drafting.extend(tokenizer.encode("z"))


def test_a_long_text_that_is_certain_is_drafted_in_pieces(monkeypatch):
    tokenizer = tokenizer_of("bpe")
    constraint = GrammarCompiler(tokenizer, tokenizer.n_vocab).start(Grammar.regex("ab" * 3000))
    encoded = []
    encode = type(tokenizer).encode
    monkeypatch.setattr(
        type(tokenizer), "encode", lambda *args, **kw: encoded.append(1) or encode(*args, **kw)
    )
    forced = constraint.forced()
    assert forced == encode(tokenizer, "ab" * 3000)[: len(forced)]
    assert 16 <= len(forced) <= 64
    for token in forced[:16]:
        assert ids(constraint.mask()) == {token}
        constraint.extend([token])
    assert len(encoded) <= 40  # of the whole rest each time


def test_only_the_beginning_of_long_certain_text_is_split_at_each_step(monkeypatch):
    tokenizer = from_metadata(vocabulary())
    encode, lengths = tokenizer.encode, []

    def counted(text, **options):
        lengths.append(len(text))
        return encode(text, **options)

    monkeypatch.setattr(tokenizer, "encode", counted)
    text = "the cat sat on a mat and ran " * 3000
    constraint = GrammarCompiler(tokenizer, tokenizer.n_vocab).start(Grammar.choice([text]))
    for token in encode(text[:60], add_special=False)[:20]:
        assert constraint.mask()[token // 32] >> (token % 32) & 1
        constraint.extend([token])
    assert constraint.forced()
    assert max(lengths) <= 1024

"""Peers draft what their published rules say, worked out by hand."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from maglio.bench.peers import (
    NgramModSource,
    NgramModTable,
    NgramSimpleSource,
    PastOutputs,
    PromptLookupSource,
    SuffixDecodingSource,
)
from maglio.bench.peers.suffix_decoding import RuleCorpus, make_corpus
from support.cascades import plain, prompt, verified


def suggest(source, stream, limit=100):
    source.observe(prompt(stream))
    draft = source.propose(stream, limit)
    return [] if draft is None else list(draft.tokens)


@pytest.mark.parametrize(
    ("stream", "draft"),
    [
        ([1, 2, 3, 9, 1, 2, 3], [9, 1, 2, 3]),  # three tokens match
        ([1, 2, 8, 3, 2, 9, 1, 2], [8, 3, 2, 9, 1, 2]),  # two do
        ([2, 8, 2, 9, 2], [8, 2, 9, 2]),  # one does, and the leftmost counts
        ([7, 1, 2, 4, 7, 2, 2, 5, 1, 2], [4, 7, 2, 2, 5, 1, 2]),  # two before one
        ([1, 2, 3], []),
        ([], []),
    ],
)
def test_prompt_lookup_copies_after_the_leftmost_longest_ngram(stream, draft):
    assert suggest(PromptLookupSource(), stream) == draft


def test_prompt_lookup_copies_ten_tokens():
    assert suggest(PromptLookupSource(), [*range(30), 0]) == list(range(1, 11))
    assert suggest(PromptLookupSource(), [*range(30), 0], limit=3) == [1, 2, 3]


def test_ngram_simple_copies_after_the_latest_match_of_twelve():
    key = list(range(100, 112))
    stream = [0, *key, *range(200, 260), 1, *key, *range(300, 330), 2, *key]
    draft = suggest(NgramSimpleSource(), stream)
    assert draft == [*range(300, 330), 2, *key[:-1]]  # all but the newest token


def test_ngram_simple_wants_long_histories_and_twelve_tokens_to_copy():
    key = list(range(100, 112))
    assert suggest(NgramSimpleSource(), [0, *key, *range(37), *key]) == []  # 62 tokens
    assert suggest(NgramSimpleSource(), [0, *key, *range(38), *key])[:2] == [0, 1]
    assert suggest(NgramSimpleSource(), [*range(90), *key, 1, 2, *key[:-2]]) == []
    assert suggest(NgramSimpleSource(), [*key, *range(60), *key]) == []  # at the very beginning
    far = [*range(90), *key, *range(90), *key]
    assert suggest(NgramSimpleSource(), far) == list(range(48))


def test_ngram_mod_drafts_only_what_is_known_for_48_tokens():
    text = list(range(1000, 1100))
    table = NgramModTable()
    assert suggest(NgramModSource(table), [*text, *text[:24]]) == text[24:88]
    # From here on only 24 more tokens are known.
    assert suggest(NgramModSource(NgramModTable()), [*text, *text[75:99]]) == []


def test_ngram_mod_shares_its_table_between_streams():
    text = list(range(1000, 1100))
    table = NgramModTable()
    suggest(NgramModSource(table), text)
    assert suggest(NgramModSource(table), text[:25]) == text[25:89]
    assert suggest(NgramModSource(NgramModTable()), text[:25]) == []


def test_ngram_mod_empties_its_table_after_five_bad_drafts():
    text = list(range(1000, 1100))
    table = NgramModTable()
    suggest(NgramModSource(table), text)
    source = NgramModSource(table)
    for begin in range(0, 25, 5):
        source.observe(prompt(text[begin : begin + 25]))
        draft = source.propose([], 100)
        assert len(draft.tokens) >= 48
        assert table.get(text[50:74]) == text[74]
        source.observe(verified(draft, [5]))
    assert table.get(text[50:74]) is None


def test_suffix_decoding_weighs_continuations_by_count():
    # "1" was followed by 2, 2, 3: the tree counts 4 occurrences, the present one too.
    source = SuffixDecodingSource()
    assert suggest(source, [9, 1, 2, 8, 1, 2, 7, 1, 3, 6, 1]) == [2]


def test_suffix_decoding_drafts_as_many_tokens_as_match():
    # A match of 3 with one earlier occurrence among two: each token has probability 1/2 once.
    stream = [9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3]
    assert suggest(SuffixDecodingSource(), stream) == [4, 5, 6]


def test_suffix_decoding_stops_where_the_path_is_improbable():
    # Five continuations of "1", all different: the best has 1/6, above a tenth; of eleven, below.
    few = [x for token in range(10, 15) for x in (1, token)]
    many = [x for token in range(10, 21) for x in (1, token)]
    assert len(suggest(SuffixDecodingSource(), [0, *few, 1])) == 1
    assert suggest(SuffixDecodingSource(), [0, *many, 1]) == []


def test_suffix_decoding_takes_the_best_score_not_the_longest_match():
    # "5 1" goes on in three ways, each once in four: 1/4 + 1/4. "1" is 2 in eight of twelve.
    stream = [5, 1, 8, 5, 1, 7, 5, 1, 6, *[1, 2, 0] * 8, 5, 1]
    assert suggest(SuffixDecodingSource(), stream) == [2]


def test_suffix_decoding_remembers_outputs_but_not_prompts():
    past = PastOutputs()
    first = SuffixDecodingSource(past)
    first.observe(prompt(range(500, 540)))
    first.observe(plain(1, 2, 3))
    second = SuffixDecodingSource(past)
    second.observe(prompt(range(600, 640)))
    second.observe(plain(1))
    assert list(second.propose([], 16).tokens) == [2]
    second.observe(plain(501))
    assert list(second.propose([], 16).tokens) == []


class FakeTree:
    """Stands for ArcticInference's: drafts what it was given last, and remembers the calls."""

    made: ClassVar[list[FakeTree]] = []

    def __init__(self, depth):
        self.depth = depth
        self.sequences = {}
        self.asked = None
        FakeTree.made.append(self)

    def extend(self, sequence, tokens):
        self.sequences.setdefault(sequence, []).extend(tokens)

    def speculate(self, *arguments):
        self.asked = arguments
        return SimpleNamespace(score=1.5, token_ids=[7, 8])


def test_where_arctic_inference_is_installed_its_own_tree_drafts(monkeypatch):
    module = ModuleType("arctic_inference.suffix_decoding._C")
    module.SuffixTree = FakeTree
    for name in ("arctic_inference", "arctic_inference.suffix_decoding"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    past = PastOutputs()
    for _ in range(2):
        source = SuffixDecodingSource(past)
        source.observe(prompt(range(30)))
        assert source.propose([], 40).tokens == [7, 8]
        source.observe(plain(30, 31))
    outputs, _, own = FakeTree.made
    assert own.sequences == {0: list(range(32))}
    assert outputs.sequences == {1: [30, 31], 2: [30, 31]}
    assert own.asked == (list(range(30)), 16, 1.0, 0.0, 0.1, False)
    assert own.depth == 64


def test_without_arctic_inference_its_rule_drafts(monkeypatch):
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    assert isinstance(make_corpus(), RuleCorpus)

"""A conversation is the same with speculation and without: text, ids, ends, random stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maglio
from maglio.engine.session import Session
from maglio.errors import ContextFullError
from support.chat_model import STOP

GREEDY = maglio.SamplingParams(logit_bias={STOP: 2.0})
SAMPLED = maglio.SamplingParams(
    temperature=0.8, top_k=40, top_p=0.95, repeat_penalty=1.1, logit_bias={STOP: 3.0}, seed=11
)
REPETITIVE = maglio.SamplingParams(temperature=0.3, logit_bias={STOP: -3.0}, seed=2)
REFERENCE = "the quick brown fox jumps over the lazy dog; " * 3
SPECULATION = (
    False,
    True,
    maglio.Speculation(source="record", max_draft=8, gate=False),
    maglio.Speculation(gate=False, history=False),
)

MESSAGES = st.sampled_from(["hi", "", "the quick brown fox", "<|im_end|>", "é\n\nя", "on and on"])
STEPS = st.one_of(
    st.tuples(st.just("send"), MESSAGES),
    st.tuples(st.just("send"), MESSAGES),
    st.tuples(st.just("undo"), st.integers(1, 2)),
    st.tuples(st.just("retry"), st.none()),
    st.tuples(st.just("edit"), st.integers(0, 2)),
    st.tuples(st.just("drop"), st.integers(0, 2)),
    st.tuples(st.just("reference"), st.just(REFERENCE)),
    st.tuples(st.just("clear references"), st.none()),
    st.tuples(st.just("system"), st.sampled_from([None, "be kind"])),
    st.tuples(st.just("break"), st.integers(0, 9)),
)


def play(chat, script):
    """Do what the script says; return everything that may be seen of it."""
    seen = []
    for what, argument in script:
        n_turns = len(chat.turns)
        answer = None
        try:
            if what == "send":
                answer = chat.send(argument)
            elif what == "break":
                answer = chat.send("hi")
                for _ in zip(range(argument), answer, strict=False):
                    pass
                answer.close()
            elif what == "undo" and argument <= n_turns:
                chat.undo(argument)
            elif what == "retry" and n_turns:
                answer = chat.retry()
            elif what == "edit" and argument < n_turns:
                answer = chat.edit(argument, "again")
            elif what == "drop" and argument < n_turns:
                chat.drop(argument)
            elif what == "reference":
                chat.add_reference(argument)
            elif what == "clear references":
                chat.clear_references()
            elif what == "system":
                chat.system = argument
        except ContextFullError as error:
            seen.append(str(error))
        if answer is not None:
            seen.append("".join(token.text for token in answer))
        seen.append([(t.user, t.answer, t.tokens, t.finish_reason) for t in chat.turns])
        seen.append((chat.tokens, chat.position, chat.dropped))
    return seen


@settings(max_examples=120, deadline=None)
@given(
    script=st.lists(STEPS, min_size=2, max_size=9),
    sampling=st.sampled_from([GREEDY, SAMPLED, REPETITIVE]),
    stop=st.sampled_from([(), ("e",), ("an", "\n\n"), ("er s", "ot")]),
    max_tokens=st.sampled_from([1, 7, 40]),
    on_full=st.sampled_from(["stop", "drop"]),
    kind=st.sampled_from(["plain", "stripping", "hybrid", "stripping hybrid"]),
)
def test_no_script_shows_whether_speculation_is_on(
    models, script, sampling, stop, max_tokens, on_full, kind
):
    chats = [
        models[kind].chat(
            "be brief",
            sampling=sampling,
            speculation=speculation,
            stop=stop,
            max_tokens=max_tokens,
            on_full=on_full,
        )
        for speculation in SPECULATION
    ]
    plain, *others = [play(chat, script) for chat in chats]
    for other in others:
        assert other == plain
    for chat in chats[1:]:
        chat.clear()  # so that there is room for a message, which cuts the indexes back
        chat.send("hi").result()
        check_index(chat)


def check_index(chat):
    """The indexes have learnt the conversation, token for token, and nothing else."""
    drafter = chat._stream._sequence.drafter
    index = drafter.source
    known = list(chat._stream._sequence.tokens[: drafter._told])
    assert list(index._stream) == known
    assert index._conversation[0]._level().total_tokens == len(known)
    assert known == list(chat.tokens[: len(known)])


def test_drafts_are_accepted_in_these_tests(model):
    ungated = maglio.Speculation(source="record", gate=False)
    chat = model.chat(sampling=REPETITIVE, max_tokens=60, speculation=ungated)
    for _ in range(2):
        chat.send("on and on").result()
    assert chat.stats.accepted > 20


def test_a_turn_computes_only_its_own_tokens(roomy_model):
    chat = roomy_model.chat(sampling=SAMPLED, max_tokens=4)
    before = 0
    for n in range(20):
        chat.send("hi").result()
        stats = chat.turns[-1].stats
        # The message with its markup; what the last answer lacked in the cache; never the history.
        expected = len(chat.tokens) - before - len(chat.turns[-1].tokens)
        assert stats.prompt_tokens <= expected + 1, f"turn {n}"
        before = len(chat.tokens)


def test_the_cache_after_many_turns_is_that_of_a_fresh_prefill(model):
    chat = model.chat("be kind", sampling=SAMPLED, max_tokens=12, stop=["e"])
    for text in ("hi", "the quick brown fox", "hi"):
        chat.send(text).result()
    chat.undo()
    chat.send("on").result()
    ids = chat.tokens
    session = Session(model.engine, chat._stream._sequence.cache)
    assert session.length >= len(ids) - 1
    session.truncate(len(ids) - 1)
    reused = session.forward(ids[-1:])[0]
    row = model.session().prefill(ids)
    np.testing.assert_array_equal(reused.view(np.uint32), row.view(np.uint32))


@pytest.mark.parametrize("max_tokens", [1, 3, 30])
def test_speculation_can_be_switched_in_mid_conversation(model, max_tokens):
    seen = []
    for switch in (False, True):
        chat = model.chat(sampling=SAMPLED, max_tokens=max_tokens, references=[REFERENCE])
        for n in range(4):
            if switch:
                chat.speculation = n % 2 == 0
            chat.send("the quick").result()
        seen.append((chat.tokens, chat.position))
    assert seen[0] == seen[1]


FORK_STEPS = st.lists(STEPS, max_size=4)


@settings(max_examples=60, deadline=None)
@given(before=FORK_STEPS, one=FORK_STEPS, other=FORK_STEPS, speculation=st.booleans())
def test_a_fork_goes_on_like_a_conversation_that_came_all_the_way(
    model, before, one, other, speculation
):
    def begin():
        return model.chat("be brief", sampling=SAMPLED, speculation=speculation, max_tokens=7)

    chat = begin()
    play(chat, before)
    branch = chat.fork()
    seen = play(chat, one), play(branch, other)
    alone = []
    for rest in (one, other):
        whole = begin()
        play(whole, before)
        alone.append(play(whole, rest))
    assert seen == tuple(alone)

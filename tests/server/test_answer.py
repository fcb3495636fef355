"""What text belongs to which token, when thoughts and calls are told apart in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.calls import AnswerReader
from maglio.calls.rows import HERMES, THINKING
from maglio.decode import TokenLogprob, total
from maglio.generation import Generation, TextToken
from maglio.server.task.answer import Answer
from maglio.server.task.delta import CallArguments, CallBegan, ContentText, Finished, ReasoningText

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
END = 99
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "look", "arguments": {"at" nothing}}\n</tool_call>'


def tokens(*texts: str, end: str = "") -> list[TextToken]:
    """A token for each text, numbered, and one that ends the answer."""
    said = [
        TextToken(n, text, "model" if n % 2 else "draft", TokenLogprob(n, -float(n)))
        for n, text in enumerate(texts)
    ]
    return [*said, TextToken(END, end, "model", TokenLogprob(END, -99.0))]


def told(*given: TextToken, step: int = 1, whole_calls: bool = False, reason="stop"):
    """The deltas of an answer that came in steps of so many tokens."""
    thinking = next(one for one in THINKING if one.begin == "<think>")
    reader = AnswerReader(HERMES, thinking, tools=[LOOK], whole_calls=whole_calls)
    answer = Answer(3, reader, {END})
    deltas = []
    for first in range(0, len(given), step):
        deltas += answer.push(given[first : first + step])
    generation = Generation(tuple(t.id for t in given), "", reason, total(()))
    return deltas + answer.finish(generation, prompt=10, cached=4, stop_text=None)


def contents(deltas):
    return [delta for delta in deltas if isinstance(delta, ContentText)]


def logged(deltas) -> list[int]:
    return [one.token for delta in contents(deltas) for one in delta.logprobs]


def test_a_text_has_the_logprobs_of_its_tokens_and_not_of_the_end():
    deltas = told(*tokens("Hel", "", "", "lo", " you", end="!"))
    assert "".join(delta.text for delta in contents(deltas)) == "Hello you!"
    assert logged(deltas) == [0, 1, 2, 3, 4]
    sources = [piece for delta in contents(deltas) for piece in delta.sources]
    assert [(piece.text, piece.source) for piece in sources[:3]] == [
        ("Hel", "draft"),
        ("lo", "model"),
        (" you", "draft"),
    ]


def test_thoughts_are_counted_and_have_no_logprobs_in_the_content():
    deltas = told(*tokens("<think>", "Let ", "me", "</think>", "\n\n", "So", " be it"))
    thoughts = [delta.text for delta in deltas if isinstance(delta, ReasoningText)]
    assert "".join(thoughts) == "Let me"
    assert "".join(delta.text for delta in contents(deltas)) == "So be it"
    assert logged(deltas) == [5, 6]
    [end] = [delta for delta in deltas if isinstance(delta, Finished)]
    assert end.usage.reasoning_tokens == 3
    assert end.usage.completion_tokens == 8
    assert (end.usage.prompt_tokens, end.usage.cached_tokens) == (10, 4)


def test_a_call_ends_the_answer_with_calls():
    deltas = told(*tokens("I look. ", *CALL))
    assert logged(deltas) == [0]
    [began] = [delta for delta in deltas if isinstance(delta, CallBegan)]
    arguments = [delta.text for delta in deltas if isinstance(delta, CallArguments)]
    assert (began.index, began.call, began.name) == (3, 0, "look")
    assert "".join(arguments) == '{"at": "x"}'
    assert deltas[-1].reason == "tool_calls"


@pytest.mark.parametrize("whole_calls", [False, True])
def test_a_call_that_is_broken_is_said_and_ends_nothing(whole_calls):
    deltas = told(*tokens(*BROKEN), whole_calls=whole_calls)
    assert "".join(delta.text for delta in contents(deltas)) == BROKEN
    assert any(isinstance(delta, CallBegan) for delta in deltas) != whole_calls
    assert deltas[-1].reason == "stop"


def test_an_answer_that_was_cut_off_says_so():
    assert told(*tokens(*CALL), reason="length")[-1].reason == "length"


@given(
    st.sampled_from(["Hello, world", f"So. {CALL}", f"<think>Hm</think>So {CALL}{CALL}", BROKEN]),
    st.data(),
)
def test_how_tokens_come_changes_nothing_but_the_cuts(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    step = data.draw(st.integers(1, len(pieces) + 1))

    def essence(deltas):
        return (
            "".join(d.text for d in contents(deltas)),
            "".join(d.text for d in deltas if isinstance(d, ReasoningText)),
            [(d.call, d.name) for d in deltas if isinstance(d, CallBegan)],
            "".join(d.text for d in deltas if isinstance(d, CallArguments)),
            deltas[-1].reason,
        )

    found = told(*tokens(*pieces), step=step)
    assert essence(found) == essence(told(*tokens(text)))
    for delta in contents(found):
        assert "".join(piece.text for piece in delta.sources) == delta.text
    assert logged(found) == sorted(set(logged(found)))

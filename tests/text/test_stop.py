import pytest
from hypothesis import given
from hypothesis import strategies as st

from maglio.errors import InvalidArgumentError
from maglio.text import StopMatcher

TEXT = st.text("ab\n", max_size=30)
STOPS = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=4)


def slow_cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """Cut a whole text by trying every end in turn."""
    for end in range(len(text) + 1):
        begins = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if begins:
            return text[: min(begins)], True
    return text, False


def could_become_stop(held: str, stops: list[str]) -> bool:
    return any(stop.startswith(held) and stop != held for stop in stops)


@given(st.lists(TEXT, max_size=8), STOPS)
def test_any_cutting_into_pieces_stops_at_the_same_place(pieces, stops):
    matcher = StopMatcher(stops)
    shown, stopped = "", False
    for piece in pieces:
        emitted, stopped = matcher.push(piece)
        shown += emitted
    shown += matcher.flush()
    assert (shown, stopped) == slow_cut("".join(pieces), stops)


@given(st.lists(TEXT, max_size=8), STOPS)
def test_text_is_held_back_only_while_it_could_become_a_stop(pieces, stops):
    matcher = StopMatcher(stops)
    seen = shown = ""
    for piece in pieces:
        seen += piece
        emitted, stopped = matcher.push(piece)
        shown += emitted
        if stopped:
            break
        held = seen[len(shown) :]
        assert held == "" or could_become_stop(held, stops)


def test_nothing_is_shown_after_a_stop():
    matcher = StopMatcher(["END"])
    assert matcher.push("text END more") == ("text ", True)
    assert matcher.push("still more") == ("", True)
    assert matcher.flush() == ""


def test_flushing_ends_a_half_met_stop():
    matcher = StopMatcher(["</s>"])
    assert matcher.push("a</s") == ("a", False)
    assert matcher.flush() == "</s"
    assert matcher.push(">b") == (">b", False)


@pytest.mark.parametrize("stops", ["text", [""], ["a", ""], [b"a"], [None]])
def test_stops_that_can_never_work_are_refused(stops):
    with pytest.raises(InvalidArgumentError, match="stop must be"):
        StopMatcher(stops)

"""A conversation serves one thread at a time."""

from __future__ import annotations

import threading

import pytest

from maglio.errors import MaglioError


@pytest.fixture
def busy(model):
    """A conversation that another thread uses."""
    inside, go_on = threading.Event(), threading.Event()

    def progress(done, total):
        inside.set()
        go_on.wait()

    chat = model.chat(max_tokens=4, on_prefill=progress)
    answer = chat.send("hi")
    thread = threading.Thread(target=answer.result)
    thread.start()
    inside.wait()
    yield chat, answer
    go_on.set()
    thread.join()
    chat.on_prefill = None
    assert len(chat.turns) == 1
    chat.send("hi").result()


@pytest.mark.parametrize(
    "use",
    [
        lambda chat, _: chat.send("on and on"),
        lambda chat, _: chat.undo(),
        lambda chat, _: chat.clear(),
        lambda chat, _: chat.fork(),
        lambda chat, _: chat.turns,
        lambda chat, _: setattr(chat, "system", "be kind"),
        lambda chat, _: chat.add_reference("text"),
        lambda _, answer: next(answer),
        lambda _, answer: answer.close(),
    ],
    ids=["send", "undo", "clear", "fork", "turns", "system", "reference", "next", "close"],
)
def test_a_second_thread_is_told_that_a_conversation_is_in_use(busy, use):
    with pytest.raises(MaglioError, match="conversation is in use by another thread"):
        use(*busy)


def test_a_fork_is_a_conversation_of_its_own(model):
    chat = model.chat(max_tokens=4)
    chat.send("hi").result()
    branch = chat.fork()
    with chat._use:
        thread = threading.Thread(target=lambda: branch.send("hi").result())
        thread.start()
        thread.join()
    assert (len(chat.turns), len(branch.turns)) == (1, 2)

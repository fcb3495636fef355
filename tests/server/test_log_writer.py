"""Lines for who may not read them: whoever has them does not wait."""

from __future__ import annotations

import logging
import threading
import warnings

import pytest

from maglio.server import limits
from maglio.server.telemetry.log_writer import LogWriter, catching


class Blocked:
    """Takes the first text, and more only when it is let."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.begun = threading.Event()
        self.may_go_on = threading.Event()

    def write(self, text: str) -> None:
        self.begun.set()
        assert self.may_go_on.wait(60)
        self.texts.append(text)


def test_lines_come_in_their_order_and_all_before_it_is_closed():
    texts: list[str] = []
    writer = LogWriter(texts.append)
    for n in range(300):
        writer.write(f"{n}\n")
    writer.close(within=60)
    assert texts == [f"{n}\n" for n in range(300)]


def test_what_nobody_reads_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(limits, "LOG_LINES", 5)
    stream = Blocked()
    writer = LogWriter(stream.write)
    writer.write("first")
    assert stream.begun.wait(60)
    for n in range(12):  # it returns, though nothing can be written
        writer.write(str(n))
    stream.may_go_on.set()
    writer.close(within=60)
    dropped = "maglio: 7 lines of the log were dropped\n"
    assert stream.texts == ["first", *"01234", dropped]


def test_the_end_does_not_wait_for_who_does_not_read():
    stream = Blocked()
    writer = LogWriter(stream.write)
    writer.write("first")
    writer.close(within=0.01)
    assert stream.texts == []
    stream.may_go_on.set()


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError("it is closed")])
def test_a_line_that_cannot_be_written_costs_no_other(error):
    texts: list[str] = []

    def write(text: str) -> None:
        if text == "bad":
            raise error
        texts.append(text)

    writer = LogWriter(write)
    for text in ("one", "bad", "two"):
        writer.write(text)
    writer.close(within=60)
    assert texts == ["one", "two"]


def test_warnings_and_what_packages_log_take_the_same_way():
    texts: list[str] = []
    show = warnings.showwarning
    writer = LogWriter(texts.append)
    with warnings.catch_warnings(), catching(writer):
        warnings.simplefilter("always")
        warnings.warn("it is slow", RuntimeWarning, stacklevel=1)
        logging.getLogger("a.package").error("it is %s", "broken")
        logging.getLogger("a.package").info("it is well")
    writer.close(within=60)
    assert texts == ["maglio: warning: it is slow\n", "maglio: it is broken\n"]
    assert warnings.showwarning is show

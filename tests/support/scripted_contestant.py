"""A contestant whose prompt says what it does: for processes that hang, crash, or answer."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

MAX_TOKENS = 2
ANSWER, HANG, CRASH, FAULT, PRINT, KILLED = range(1, 7)


def open_contestant(setup):
    if setup.settings.get("opens") is False:
        raise OSError("no such weights")
    return Scripted(setup)


class Scripted:
    """Answers with the last tokens of the prompt; a method other than ``plain`` drafts them all.

    Settings: ``wrong`` gives other tokens; ``starts`` is a file that gets a line for each process;
    ``reached`` is a named pipe that is opened, and stays open, before it hangs.
    """

    def __init__(self, setup) -> None:
        self._settings, self._drafts = setup.settings, setup.method != "plain"
        if "starts" in self._settings:
            with Path(self._settings["starts"]).open("a") as file:
                file.write("start\n")

    def answer(self, request):
        from worker.message import Answer

        if request.max_tokens != MAX_TOKENS:  # to warm up
            return Answer(tokens=[], first_token_s=0.0, decode_s=0.0)
        self._do(request.prompt[0])
        tokens = request.prompt[-request.max_tokens :]
        tokens = [token + self._settings.get("wrong", 0) for token in tokens]
        counts = {"steps": 1, "drafted": 2, "accepted": 2} if self._drafts else {}
        return Answer(tokens=tokens, first_token_s=0.25, decode_s=0.5, **counts)

    def _do(self, what: int) -> None:
        if what == HANG:
            if "reached" in self._settings:
                self._pipe = os.open(self._settings["reached"], os.O_WRONLY)
                os.write(self._pipe, b"!")
            threading.Event().wait()
        elif what == CRASH:
            print("it is all over", file=sys.stderr, flush=True)
            os._exit(3)
        elif what == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == FAULT:
            raise ValueError("a fault\nof mine")
        elif what == PRINT:
            print("libraries print")
            os.system("echo and so do their children")

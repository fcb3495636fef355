"""What can be said to the chat itself: its commands, from ``/help`` to ``/quit``.

Boundary: from a command to the conversation and to how it is shown. The loop around it, and what
becomes of errors, is :mod:`maglio.cli.repl`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import maglio
from maglio.chat import Conversation
from maglio.chat.turn import Answer
from maglio.cli.answer_writer import View
from maglio.cli.chat_settings import Settings, whole
from maglio.cli.streams import note
from maglio.cli.terminal import details, note_seed, summary
from maglio.errors import InvalidArgumentError

HELP = """\
/help                 this
/system [TEXT]        show or set the system prompt; "" is an empty one, /unset system none
/reference [FILE]     draft from a file or folder too; without FILE list them
/forget               forget all references
/clear                start over; system prompt and references stay
/undo [N]             take back the last turn, or the last N
/retry                answer again
/save FILE, /load FILE
/stats                totals so far, by source
/spec [on|off]        speculation (what is said is the same)
/set [NAME VALUE]     max_tokens, on_full, stop or a sampling parameter, such as temperature 0.7;
                      alone, what they are
/unset NAME           bring one of these back to its default, or remove the system prompt
/color on|off         colour text by source: plain model, cyan conversation, green reference,
                      yellow recycling (record policy)
/thinking on|off      show thinking blocks
/quit                 leave; Ctrl-D does too
Ctrl-C stops an answer and keeps what was said. Alt-Enter makes a new line; so does Enter in a
message that begins with three quotation marks, until a line of only three. What is between them,
and what is pasted, is a message whatever it begins with. // begins a message with a /."""

CHANGING = frozenset({"system", "reference", "forget", "clear", "undo", "set", "unset"})
"""Commands after which the conversation is another, so that it has to be saved again."""


class QuitError(Exception):
    """The user wants to leave."""


class ChatCommands:
    """The commands of one chat.

    Args:
        chat: the conversation.
        view: how it is shown.
        settings: its settings.
        answer: what to do with an answer that a command brings about.
        home: the file that ``/save`` and ``/load`` mean when none is named.
    """

    def __init__(
        self,
        chat: Conversation,
        view: View,
        *,
        settings: Settings,
        answer: Callable[[Answer], None],
        home: Path | None,
    ) -> None:
        self._chat = chat
        self._view = view
        self._answer = answer
        self._home = home
        self._settings = settings
        self._drafting: bool | maglio.Speculation = chat.speculation or True  # for /spec on
        self._by_name: dict[str, Callable[[str], None]] = {
            "help": lambda _: note(HELP),
            "system": self._system,
            "reference": self._reference,
            "forget": self._forget,
            "clear": self._clear,
            "undo": self._undo,
            "retry": lambda _: self._answer(self._chat.retry()),
            "save": self._save,
            "load": self._load,
            "stats": self._stats,
            "spec": self._spec,
            "set": self._set,
            "unset": self._unset,
            "color": self._color,
            "thinking": self._thinking,
            "quit": self._quit,
        }

    def run(self, name: str, argument: str) -> None:
        """Do what a command says.

        Raises:
            InvalidArgumentError: there is no such command, or its argument cannot work.
            QuitError: it says to leave.
        """
        command = self._by_name.get(name)
        if command is None:
            raise InvalidArgumentError(
                f"there is no command /{name:.40}; /help lists them, and // begins a message "
                "with a /"
            )
        command(argument.strip())

    def _system(self, text: str) -> None:
        if text:
            self._chat.system = "" if text in ('""', "''") else text
        elif self._chat.system is None:
            note("(no system prompt)")
        else:
            note(self._chat.system or "(an empty system prompt)")

    def _reference(self, name: str) -> None:
        if name:
            self._chat.add_reference(user_path(name))
        if not self._chat.references:
            note("(no references)")
        for reference in self._chat.references:
            note(str(reference) if isinstance(reference, Path) else "(text)")

    def _forget(self, _: str) -> None:
        self._chat.clear_references()
        note("(no references)")

    def _clear(self, _: str) -> None:
        self._chat.clear()
        note("(a new conversation)")

    def _undo(self, count: str) -> None:
        for turn in self._chat.undo(whole("undo", count or "1")):
            note(f"took back: {turn.user:.60}")

    def _save(self, name: str) -> None:
        path = self._path(name)
        self._chat.save(path)
        note(f"saved to {path}")

    def _load(self, name: str) -> None:
        load_with_notes(self._chat, self._path(name))
        count = len(self._chat.turns)
        note(f"loaded {count} turn{'' if count == 1 else 's'}")

    def _path(self, name: str) -> Path:
        if name:
            return user_path(name)
        if self._home is None:
            raise InvalidArgumentError("name a file, such as /save talk.json")
        return self._home

    def _stats(self, _: str) -> None:
        stats = self._chat.stats
        used = len(self._chat.tokens)
        note(f"{summary(stats)}\n{details(stats)}\ncontext {used} tokens, room for ", end="")
        note(str(self._chat.room))
        note_seed(self._chat.sampling)

    def _spec(self, choice: str) -> None:
        if choice:
            self._chat.speculation = _switch("spec", choice) and self._drafting
        note(f"speculation is {'off' if self._chat.speculation is False else 'on'}")

    def _set(self, setting: str) -> None:
        name, _, value = setting.replace("=", " ", 1).partition(" ")
        if name:
            note(self._settings.set(name, value.strip()))
        else:
            note("\n".join(self._settings.lines()))

    def _unset(self, name: str) -> None:
        if not name:
            raise InvalidArgumentError("name a setting, such as /unset temperature")
        note(self._settings.unset(name))

    def _color(self, choice: str) -> None:
        self._view.color = _switch("color", choice)

    def _thinking(self, choice: str) -> None:
        self._view.thinking = _switch("thinking", choice)

    def _quit(self, _: str) -> None:
        raise QuitError


def user_path(name: str) -> Path:
    """The path that ``name`` means; a ``~`` at its beginning is a home folder.

    Raises:
        InvalidArgumentError: there is no such home folder.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError:
        user = Path(name).parts[0]
        raise InvalidArgumentError(f"{name:.80}: there is no home folder of {user}") from None


def load_with_notes(chat: Conversation, path: Path) -> None:
    """Load a conversation, and say what of it had to be left out. Raises as it does."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chat.load(path)
    for warning in caught:
        note(f"maglio: {warning.message}")


def _switch(name: str, choice: str) -> bool:
    if choice not in ("on", "off"):
        raise InvalidArgumentError(f"/{name} takes on or off")
    return choice == "on"

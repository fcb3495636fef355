"""Tasks and their prompts, as token ids that all contestants get.

Boundary: a model's tokenizer and chat template make ids of texts; runs nothing. The texts of public
data sets come from :mod:`~maglio.bench.field.data_tasks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, TypeVar

from maglio.bench.data import Message
from maglio.bench.field.line import FieldTask
from maglio.bench.stream import ModelText, encode_prompt
from maglio.bench.tasks import BUILT_IN
from maglio.errors import ChatTemplateError

T = TypeVar("T")
_MOST_CHARACTERS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A prompt as text.

    Attributes:
        name: unique in its task.
        messages: a conversation to answer; or
        text: plain text to continue.
        prediction: what the answer may be an edited copy of.
        references: documents that the answer may quote.
        schema: a JSON schema that the answer keeps to.
        is_recording: whether the messages are a recorded conversation, to be continued before the
            last answer, not its first, that it is short enough up to.
    """

    name: str
    messages: tuple[Message, ...] = ()
    text: str = ""
    prediction: str | None = None
    references: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    is_recording: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A task before it is encoded.

    Attributes:
        name: unique.
        data: ``built in``, or the name of a file or folder.
        expected: what to expect of drafting, in one sentence.
        items: its prompts, in the order in which they are tried.
    """

    name: str
    data: str
    expected: str
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class FieldPrompt:
    """A prompt as token ids, with what the item says besides."""

    item: Item
    ids: tuple[int, ...]

    @property
    def name(self) -> str:
        """Unique in its task."""
        return self.item.name


@dataclass(frozen=True, slots=True)
class TaskPrompts:
    """A task with the prompts that were chosen."""

    task: FieldTask
    prompts: tuple[FieldPrompt, ...]


_EXPECTED = {
    "repetition": "The text repeats itself, so nearly every draft token is right.",
    "grounded copy": "The answer is in the prompt: long drafts are right as soon as it is found.",
    "code edit": "Most of the answer is in the prompt, with changes that end a draft.",
    "free form": "Hardly anything comes twice: drafting must cost nothing here.",
    "reference": "The answer may quote a document that the model does not see, only the drafts do.",
}


def built_in() -> list[Kind]:
    """The tasks that come with Maglio, of one prompt each."""
    return [
        Kind(
            name=task.group,
            data="built in",
            expected=_EXPECTED[task.group],
            items=[
                Item(
                    name="1",
                    messages=task.messages,
                    text=task.text,
                    references=() if task.reference is None else (task.reference,),
                )
            ],
        )
        for task in BUILT_IN
    ]


def encode(kind: Kind, text: ModelText, *, count: int, most: int) -> TaskPrompts | None:
    """Take the first prompts of a task that are short enough.

    Args:
        kind: the task.
        text: how the model reads and writes.
        count: at most so many.
        most: tokens of the longest prompt.

    Returns:
        The task; ``None`` if no prompt is short enough and what the model's template takes.
    """
    chosen: list[FieldPrompt] = []
    for item in kind.items:
        if len(chosen) == count:
            break
        ids = _ids(item, text, most)
        if ids is not None:
            chosen.append(FieldPrompt(item, ids))
    if not chosen:
        return None
    return TaskPrompts(FieldTask(kind.name, kind.data, len(chosen), kind.expected), tuple(chosen))


def spread(values: Sequence[T]) -> Iterator[T]:
    """All values, in an order whose beginnings are spread over the whole."""
    step = max(1, round(0.618 * len(values)))
    while gcd(step, len(values)) > 1:
        step += 1
    for number in range(len(values)):
        yield values[number * step % len(values)]


def _ids(item: Item, text: ModelText, most: int) -> tuple[int, ...] | None:
    """The ids of a prompt; ``None`` if they are too many, or not what the template takes."""
    if not item.messages:
        ids = text.tokenizer.encode(item.text)
        return tuple(ids) if len(ids) <= most else None
    for messages in _beginnings(item.messages) if item.is_recording else (item.messages,):
        if sum(len(one.text) for one in messages) > most * _MOST_CHARACTERS_PER_TOKEN:
            continue  # encoding it would take seconds, to no end
        try:
            ids = encode_prompt(messages, text)
        except ChatTemplateError:  # such as two turns of a user, one after the other
            continue
        if len(ids) <= most:
            return tuple(ids)
    return None


def _beginnings(messages: tuple[Message, ...]) -> Iterator[tuple[Message, ...]]:
    """All that comes before one of the answers, the longest first, but not before the first."""
    answers = [n for n, message in enumerate(messages) if message.role == "assistant"]
    for end in reversed(answers[1:]):
        yield messages[:end]

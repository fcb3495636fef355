"""Tasks made of public data sets, found in a folder by the names of their files.

Boundary: files in, texts out. Which prompts fit a model is decided in
:mod:`~maglio.bench.field.prompts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from maglio.bench.data import Dialogue, Message, read_dialogues
from maglio.bench.field.prompts import Item, Kind, spread
from maglio.errors import DataFileError

_CATEGORIES = {
    "translation": ("translation", "What is translated does not come again: little to draft."),
    "summarization": ("summarization", "Summaries quote the text in pieces: short drafts."),
    "qa": ("qa", "Short answers from memory: little to draft."),
    "math_reasoning": ("maths", "Numbers and names of the question come again in steps."),
    "rag": ("rag", "Answers quote the passages in the prompt in pieces."),
}
_EDIT_CHARACTERS = 300
"""Shorter code is over before drafting matters."""

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 60},
        "answerable": {"type": "boolean"},
        "answer": {"type": "string", "maxLength": 300},
    },
    "required": ["title", "answerable", "answer"],
    "additionalProperties": False,
}
"""What answers in JSON keep to."""

_EXCHANGES = 3


def data_kinds(folder: Path) -> list[Kind]:
    """The tasks whose data is in a folder.

    Raises:
        DataFileError: it has none of the files, or one is damaged.
    """
    kinds = [
        kind for name, make in _FILES if (folder / name).exists() for kind in make(folder / name)
    ]
    if not kinds:
        known = ", ".join(name for name, _ in _FILES)
        raise DataFileError(f"{folder} has no known data set; it may have {known}")
    return kinds


def _spec_bench(path: Path) -> Iterable[Kind]:
    dialogues = _numbered(path)
    chats = [one for one in dialogues if one[1].category not in _CATEGORIES]
    yield _asking("spec-bench multi-turn", path, "First turns of MT-bench: plain talk.", chats)
    for category, (name, expected) in _CATEGORIES.items():
        members = [one for one in dialogues if one[1].category == category]
        yield _asking(f"spec-bench {name}", path, expected, members)
    passages = [one for one in dialogues if one[1].category == "rag"]
    store = "\n\n".join(dialogue.prompt[-1].text for _, dialogue in passages)
    yield Kind(
        name="rag with references",
        data=path.name,
        expected="The passages of all questions are references: quotes are drafted at once.",
        items=[
            Item(name=name, messages=dialogue.prompt, references=(store,))
            for name, dialogue in spread(passages)
        ],
    )


def _edits(path: Path) -> Iterable[Kind]:
    long = [one for one in _numbered(path) if len(one[1].material) >= _EDIT_CHARACTERS]
    items = [(name, _edit(dialogue), dialogue.material) for name, dialogue in spread(long)]
    yield Kind(
        name="edits",
        data=path.name,
        expected="Most of the answer is code of the prompt, with changes that end a draft.",
        items=[Item(name=name, messages=messages) for name, messages, _ in items],
    )
    yield Kind(
        name="edits with prediction",
        data=path.name,
        expected="The same edits, with the old code given as what the answer may be like.",
        items=[
            Item(name=name, messages=messages, prediction=code) for name, messages, code in items
        ],
    )


def _edit(dialogue: Dialogue) -> tuple[Message, ...]:
    question = dialogue.prompt[-1].text
    return (Message("user", f"{question}\n\nAnswer with the whole code and nothing else."),)


def _completions(path: Path) -> Iterable[Kind]:
    yield Kind(
        name="humaneval",
        data=path.name,
        expected="Names and examples of the head come again in the body.",
        items=[
            Item(name=name, text=dialogue.prompt[-1].text)
            for name, dialogue in spread(_numbered(path))
        ],
    )


def _agents(path: Path) -> Iterable[Kind]:
    yield _continuing("agent traces", path, "Steps repeat code, paths and commands seen before.")


def _react(path: Path) -> Iterable[Kind]:
    yield _continuing("react traces", path, "Thoughts and actions repeat names of observations.")


def _answers(path: Path) -> Iterable[Kind]:
    yield Kind(
        name="json schema",
        data=path.name,
        expected="What the schema leaves no choice about is drafted, and so are quotes.",
        items=[
            Item(name=name, messages=dialogue.prompt, schema=SCHEMA)
            for name, dialogue in spread(_numbered(path))
        ],
    )


def _restatements(path: Path) -> Iterable[Kind]:
    dialogues = _numbered(path)
    items = []
    for begin in range(0, len(dialogues) - _EXCHANGES + 1, _EXCHANGES):
        group = dialogues[begin : begin + _EXCHANGES]
        messages = [message for _, dialogue in group for message in dialogue.messages]
        asked = Message("user", "Write all your answers again, word for word, one by one.")
        items.append(Item(name=group[0][0], messages=(*messages, asked)))
    yield Kind(
        name="restatement",
        data=path.name,
        expected="The answer is what the assistant said before: long drafts are right.",
        items=list(spread(items)),
    )


def _asking(name: str, path: Path, expected: str, members: Sequence[tuple[str, Dialogue]]) -> Kind:
    items = [Item(name=number, messages=dialogue.prompt) for number, dialogue in spread(members)]
    return Kind(name=name, data=path.name, expected=expected, items=items)


def _continuing(name: str, path: Path, expected: str) -> Kind:
    items = [
        Item(name=number, messages=dialogue.messages, is_recording=True)
        for number, dialogue in spread(_numbered(path))
    ]
    return Kind(name=name, data=path.name, expected=expected, items=items)


def _numbered(path: Path) -> list[tuple[str, Dialogue]]:
    """The conversations of a file with their numbers, from 1."""
    return [(str(number), dialogue) for number, dialogue in enumerate(read_dialogues(path), 1)]


_FILES: tuple[tuple[str, Callable[[Path], Iterable[Kind]]], ...] = (
    ("spec_bench_question.jsonl", _spec_bench),
    ("EditEval.jsonl", _edits),
    ("HumanEval.jsonl.gz", _completions),
    ("sweagent_traj", _agents),
    ("sglang_react_hotpotqa_100.jsonl", _react),
    ("arctic_json_mode_WikiQuestions.json", _answers),
    ("gsm8k_test.jsonl", _restatements),
)

"""Finds the format of a model, from what its chat template makes of a call.

Boundary: renders a few short conversations; runs no model.

A conversation with a call of a tool that no other conversation has is rendered, and the format is
the one whose reader finds that call in it. Where a template leaves the calls of earlier answers
out, the names of its tokens say which format it is. Where it tells the model of no tools, or in a
format that is not known, a system message asks for calls in the commonest one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from maglio.calls.delta import CallArguments, CallBegan
from maglio.calls.format import CallFormat
from maglio.calls.messages import ArgumentsAs
from maglio.calls.reader import AnswerReader
from maglio.calls.rows import HERMES, ROWS, THINKING, Row, Thinking
from maglio.errors import ChatTemplateError
from maglio.text.template import DEFAULT, TOOL_USE, ChatTemplate

_NAME = "probe_of_tools"
_ARGUMENTS: Mapping[str, Any] = {"a_text": "some words", "a_number": 3, "a_list": [{"x": True}]}
_PROPERTIES = {
    "a_text": {"type": "string", "description": "a text"},
    "a_number": {"type": "integer", "description": "a number"},
    "a_list": {"type": "array", "items": {"type": "object"}, "description": "a list"},
}
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "a probe",
        "parameters": {"type": "object", "properties": _PROPERTIES, "required": ["a_text"]},
    },
}
_ASKED = {"role": "user", "content": "a question"}


def format_of(template: ChatTemplate) -> CallFormat:
    """Return the format of the model that a chat template is of."""
    probe = _Probe(template)
    found = probe.row() or probe.row_by_name()
    describes_tools = found is not None and probe.describes_tools()
    row, arguments_as = found if found and describes_tools else (HERMES, "mapping")
    source = template.sources.get(TOOL_USE, "") + template.sources[DEFAULT]
    return CallFormat(
        row=row,
        thinking=None if row.style == "harmony" else _thinking(source),
        arguments_as=arguments_as,
        describes_tools=describes_tools,
        takes_system=probe.takes_system(),
        control=dict(template.tokenizer.control_tokens),
    )


class _Probe:
    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._prompt = self._rendered([_ASKED])

    def row(self) -> tuple[Row, ArgumentsAs] | None:
        """The format whose reader reads the template's calls, and how arguments are given."""
        forms: tuple[tuple[ArgumentsAs, object], ...] = (
            ("mapping", _ARGUMENTS),
            ("text", json.dumps(_ARGUMENTS)),
        )
        for arguments_as, arguments in forms:
            function = {"name": _NAME, "arguments": arguments}
            call = {"type": "function", "id": "abcdefghi", "function": function}
            said = {"role": "assistant", "content": "", "tool_calls": [call]}
            text = self._rendered([_ASKED, said], add_generation_prompt=False)
            answer = self._answer(text)
            rows = [row for row in ROWS if answer and _reads(row, answer)]
            if rows:  # the one that has the white space of the template, too
                exact = (row for row in rows if all(text in answer for text in row.literals))
                return next(exact, rows[0]), arguments_as
        return None

    def row_by_name(self) -> tuple[Row, ArgumentsAs] | None:
        """The format whose sign the template has in it."""
        sources = "".join(self._template.sources.values())
        row = next((row for row in ROWS if row.sign in sources), None)
        return None if row is None else (row, "mapping")

    def describes_tools(self) -> bool:
        """Whether the prompt tells of a tool that is given."""
        return self._prompt is not None and _NAME in self._prompt

    def takes_system(self) -> bool:
        """Whether a system message comes out in the prompt."""
        system = {"role": "system", "content": _NAME}
        prompt = self._rendered([system, _ASKED], tools=None)
        return prompt is not None and _NAME in prompt

    def _answer(self, text: str | None) -> str:
        """The part of a rendering that the model would have written."""
        if text is None or self._prompt is None:
            return ""
        if text.startswith(self._prompt):
            return text[len(self._prompt) :]
        pairs = enumerate(zip(self._prompt, text, strict=False))
        differs = next((i for i, (one, other) in pairs if one != other), len(text))
        return text[text.rfind("\n", 0, differs) + 1 :]  # that may be in the middle of a name

    def _rendered(
        self,
        messages: list[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = (_TOOL,),
        add_generation_prompt: bool = True,
    ) -> str | None:
        try:
            return self._template.render(
                messages, tools=tools, add_generation_prompt=add_generation_prompt
            ).text
        except ChatTemplateError:
            return None


def _reads(row: Row, text: str) -> bool:
    reader = AnswerReader(row, None, tools=[_TOOL], whole_calls=True)
    deltas = reader.push(text) + reader.finish()
    called = "".join(delta.text for delta in deltas if isinstance(delta, CallArguments))
    if sum(isinstance(delta, CallBegan) for delta in deltas) != 1:
        return False
    return bool(json.loads(called) == _ARGUMENTS)


def _thinking(source: str) -> Thinking | None:
    return next((thinking for thinking in THINKING if thinking.end in source), None)

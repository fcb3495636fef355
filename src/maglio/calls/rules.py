"""Grammars of calls, from a format's row and the tools.

Boundary: what a model may write where it may, or must, call tools. The reader of the same row
reads it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from maglio.calls.harmony import CHANNEL, MESSAGE, START
from maglio.calls.rows import Row, Thinking
from maglio.calls.tool import Tool
from maglio.calls.values import GemmaValues, PythonValues, TaggedValues
from maglio.grammar.lark import Rules, json_value, literal

_SPACE = "/[ \\t\\r\\n]+/?"


class CallRules:
    """Writes the grammar of one answer.

    Args:
        row: the format of calls.
        thinking: what comes around thoughts.
        control: ids of control tokens, by their names.
        tools: those that may be called.
        parallel: whether there may be several calls.
    """

    def __init__(
        self,
        row: Row,
        thinking: Thinking | None,
        control: Mapping[str, int],
        tools: Sequence[Tool],
        *,
        parallel: bool,
    ) -> None:
        self._row = row
        self._thinking = thinking
        self._tools = tools
        self._parallel = parallel
        self._rules = Rules(control)

    def answer(
        self, *, must_call: bool, reasoning: bool, content: Mapping[str, Any] | None = None
    ) -> str:
        """Return the grammar.

        Args:
            must_call: whether a text is no answer.
            reasoning: whether the prompt has begun a thought.
            content: the JSON schema of an answer that does not call; any text when ``None``.
        """
        form = "" if content is None else json_value(content, lenient=False)
        if self._row.style == "harmony":
            return self._rules.grammar(self._harmony(form, must_call=must_call))
        opening = self.thought(reasoning=reasoning)
        may_think = bool(opening) and not reasoning
        said = self._calls()
        if not must_call:
            said = f"{said} | {form}" if form else self._free(may_think=may_think)
        return self._rules.grammar(f"{opening} {self._rules.rule(said)}")

    def opening(self, *, reasoning: bool) -> str:
        """Return rules for what comes before an answer that is kept to a grammar of its own."""
        if self._row.style == "harmony":
            final = self._rules.spelled(f"{CHANNEL}final{MESSAGE}")
            return self._rules.grammar(f"{self._harmony_thought()} {final}")
        return self._rules.grammar(self.thought(reasoning=reasoning) or '""')

    def thought(self, *, reasoning: bool) -> str:
        """Return an expression for a thought, which may come unless the prompt has begun it."""
        thinking, rules = self._thinking, self._rules
        if thinking is None:
            return ""
        rest = f"{rules.text_to(thinking.end)} {_SPACE}"
        if reasoning:
            return rules.rule(rest)
        return f"{rules.rule(f'{rules.spelled(thinking.begin)} {rest}')}?"

    def _free(self, *, may_think: bool) -> str:
        """Text, or text and then calls."""
        row, rules = self._row, self._rules
        unless = self._thinking.begin if may_think and self._thinking else ""
        opening = row.section[0] or row.opening
        if row.bare:
            return f"{self._calls()} | (/[^{{ \\t\\r\\n](?s:.*)/ )?"
        text = rules.text(unless=unless)
        if rules.starts_with_control(opening):
            return f"{text} ({self._calls()})?"
        trigger = opening.split()[0]
        head = rules.text_to(trigger, unless=unless)
        return f"{head} {self._calls(begun=len(trigger))} | {text}"

    def _calls(self, begun: int = 0) -> str:
        """One call or several; of the format's first word, ``begun`` characters are there."""
        row, rules = self._row, self._rules
        opening, closing = row.section
        rest = rules.rule(" | ".join(map(self._call, self._tools)))
        call = f"{rules.spelled(self._first_word)} {rest}"
        first = rest if begun and not opening else call
        before = rules.spelled(opening[begun:])
        if row.bare and before:
            before = f"({before})?"
        more = f"({rules.spelled(row.between)} {call})*" if self._parallel else ""
        return " ".join(part for part in (before, first, more, rules.spelled(closing)) if part)

    @property
    def _first_word(self) -> str:
        """What comes first in every call, and is written once for all tools."""
        return (self._row.opening.split() or [""])[0]

    def _call(self, tool: Tool) -> str:
        """A call but for its first word."""
        row, rules = self._row, self._rules
        opening = row.opening[len(self._first_word) :]
        if row.style == "object":
            name, arguments = map(json.dumps, row.keys)
            head = rules.spelled(f"{opening}{{")
            if row.first_id:
                first_id = literal(f"{json.dumps(row.first_id)}: ")
                head += f' ({first_id} /"[0-9]{{1,3}}", /)?'
            called = json.dumps(tool.name, ensure_ascii=False)
            head += f" {literal(f'{name}: {called}, {arguments}: ')}"
            body = self._json(tool)
            if row.last_id:
                last_id = literal(f", {json.dumps(row.last_id)}: ")
                body += f' ({last_id} /"[a-zA-Z0-9]{{9}}"/)?'
            body += f" {rules.spelled('}' + row.closing)}"
        else:
            head = rules.spelled(f"{opening}{tool.name}")
            body = f"{self._after_name()} {self._arguments(tool)} {rules.spelled(row.closing)}"
        return rules.rule(f"{head} {body}")

    def _after_name(self) -> str:
        row, rules = self._row, self._rules
        after = rules.spelled(row.after_name)
        if not row.call_id:
            return after
        if row.call_id == ":":
            return f'":" /[0-9]{{1,3}}/ {after}'
        return f"({rules.spelled(row.call_id)} /[a-zA-Z0-9]{{9}}/)? {after}"

    def _arguments(self, tool: Tool) -> str:
        row, rules = self._row, self._rules
        if row.style == "tagged":
            return TaggedValues(rules, tool, row.tags).arguments()
        if row.style == "gemma":
            return f'"{{" {GemmaValues(rules, tool).members(tool.parameters)} "}}"'
        if row.style == "python":
            return PythonValues(rules, tool).members(tool.parameters)
        return self._json(tool)

    def _json(self, tool: Tool) -> str:
        schema = {"type": "object", **tool.parameters}
        return self._rules.rule(json_value(schema, lenient=not tool.strict))

    def _harmony_thought(self) -> str:
        rules = self._rules
        begin = rules.spelled(f"{CHANNEL}analysis{MESSAGE}")
        end = rules.text_to(f"<|end|>{START}assistant")
        return f"{rules.rule(f'{begin} {end}')}?"

    def _harmony(self, form: str, *, must_call: bool) -> str:
        rules = self._rules
        calls = []
        for tool in self._tools:
            heads = (
                f"{CHANNEL}commentary to=functions.{tool.name} <|constrain|>json{MESSAGE}",
                f" to=functions.{tool.name}{CHANNEL}commentary json{MESSAGE}",
            )
            head = " | ".join(map(rules.spelled, heads))
            calls.append(rules.rule(f"({head}) {self._json(tool)}"))
        call = rules.rule(" | ".join(calls))
        begin = rules.spelled(f"{CHANNEL}commentary{MESSAGE}")
        preamble = rules.rule(f"{begin} {rules.text_to(f'<|end|>{START}assistant')}")
        final = f"{rules.spelled(f'{CHANNEL}final{MESSAGE}')} {form or rules.text()}"
        said = call if must_call else f"({call} | {rules.rule(final)})"
        return f"{self._harmony_thought()} {preamble}? {said}"

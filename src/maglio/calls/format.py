"""How a model writes thoughts and calls, and how it is told of tools: what a server needs to know.

Boundary: joins a format's row, its reader and its grammar. How the format of a model is found is in
:mod:`~maglio.calls.recognition`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from maglio.calls.messages import ArgumentsAs, described, normalised
from maglio.calls.reader import AnswerReader
from maglio.calls.rows import Row, Thinking
from maglio.calls.rules import CallRules
from maglio.calls.tool import tools_of
from maglio.errors import InvalidArgumentError
from maglio.grammar import Grammar
from maglio.text.template import Message

AUTO: Literal["auto"] = "auto"
REQUIRED: Literal["required"] = "required"


@dataclass(frozen=True, slots=True)
class CallFormat:
    """The format of one model. Made by :func:`~maglio.calls.format_of`.

    Attributes:
        row: how calls are written.
        thinking: what comes around thoughts; ``None`` where there are none, or where the row says.
        arguments_as: how the template wants the arguments of earlier calls.
        describes_tools: whether the template tells the model of its tools. If not, it must not be
            given any; :meth:`messages` tells of them.
        takes_system: whether the template takes system messages.
        control: ids of the model's control tokens, by their names.
    """

    row: Row
    thinking: Thinking | None
    arguments_as: ArgumentsAs
    describes_tools: bool
    takes_system: bool
    control: Mapping[str, int]

    @property
    def name(self) -> str:
        """The name of the row."""
        return self.row.name

    def begins_thinking(self, prompt: str) -> bool:
        """Whether the end of a prompt has begun a thought.

        Args:
            prompt: the rendered prompt, with control tokens.
        """
        return self.thinking is not None and prompt.rstrip().endswith(self.thinking.begin)

    def messages(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[dict[str, Any]]:
        """Return messages as the template wants them.

        Calls of earlier answers get their arguments as it reads them. Where it does not tell of
        tools, a system message does, or the first message of the user.

        Raises:
            InvalidArgumentError: the arguments of a call are not a JSON object.
        """
        given = normalised(messages, arguments_as=self.arguments_as)
        if self.describes_tools or not tools:
            return given
        return described(given, tools, as_system=self.takes_system)

    def reader(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        reasoning: bool = False,
        whole_calls: bool = False,
    ) -> AnswerReader:
        """Return a reader for one answer; its arguments are those of :class:`AnswerReader`."""
        return AnswerReader(
            self.row, self.thinking, tools=tools, reasoning=reasoning, whole_calls=whole_calls
        )

    def grammar(
        self,
        tools: Sequence[Mapping[str, Any]],
        *,
        choice: str = AUTO,
        parallel: bool = True,
        reasoning: bool = False,
        content: Mapping[str, Any] | None = None,
    ) -> Grammar:
        """Return what an answer may be that calls tools, or may call them.

        A thought may come first, or its rest where the prompt has begun one.

        Args:
            tools: descriptions of the tools, in OpenAI's form.
            choice: ``"auto"``, the answer is a text, or calls after some text; ``"required"``, it
                is one or several calls; or the name of the tool that it has to call.
            parallel: whether it may have several calls.
            reasoning: whether the prompt has begun a thought.
            content: the JSON schema that an answer without calls keeps to, where it may have none;
                then no text comes before calls. Any text when ``None``.

        Raises:
            InvalidArgumentError: there are no tools, or none of the name.
        """
        known = tools_of(tools)
        if choice not in (AUTO, REQUIRED):
            if choice not in known:
                raise InvalidArgumentError(
                    f"tool choice {choice!r:.80} is none of the tools: {', '.join(known):.400}"
                )
            known = {choice: known[choice]}
        if not known:
            raise InvalidArgumentError("there are no tools to call; give one at least")
        rules = self._rules(known, parallel=parallel)
        return Grammar.lark(
            rules.answer(must_call=choice != AUTO, reasoning=reasoning, content=content)
        )

    def thinking_first(self, grammar: Grammar, *, reasoning: bool = False) -> Grammar:
        """Return a grammar of the answer with a thought before it, if the model thinks.

        Args:
            grammar: of the answer itself.
            reasoning: whether the prompt has begun a thought.
        """
        if self.thinking is None and self.row.style != "harmony":
            return grammar
        return grammar.after(self._rules({}, parallel=False).opening(reasoning=reasoning))

    def _rules(self, tools: Mapping[str, Any], *, parallel: bool) -> CallRules:
        return CallRules(
            self.row, self.thinking, self.control, list(tools.values()), parallel=parallel
        )

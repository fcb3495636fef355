"""The formats in which models write calls: a row for each, and nothing but the row.

Boundary: data. The reader (:mod:`~maglio.calls.envelope`) and the grammar
(:mod:`~maglio.calls.rules`) of a format both come from its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_BAR = "\uff5c"  # DeepSeek's names of tokens have this one

Style = Literal["object", "json", "tagged", "gemma", "python", "harmony"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How calls are written. Where a text has white space, models may write other white space.

    Attributes:
        name: of the format.
        style: how a call's arguments are written: ``object``, the whole call is a JSON object with
            keys for its name and its arguments; ``json``, a JSON object after the name; ``tagged``,
            each argument between tags; ``gemma`` and ``python``, those notations; ``harmony``,
            channels, which are read and written apart from the rest.
        opening: comes before a call's name, or before its object.
        after_name: comes between a call's name and its arguments.
        closing: comes after a call.
        section: comes before the first call and after the last.
        between: comes between calls.
        keys: of the name and of the arguments in an object.
        first_id: key of an id that may come before the name in an object.
        last_id: key of an id that may come after the arguments in one.
        tags: what comes before an argument's key, after it, and after its value.
        padded: whether an argument's value stands on lines of its own.
        call_id: comes before an id that follows the name, if one does.
        bare: whether a call may be the whole answer, with nothing before it.
        sign: what a template that writes no calls has in its text if its model does.
    """

    name: str
    style: Style
    opening: str = ""
    after_name: str = ""
    closing: str = ""
    section: tuple[str, str] = ("", "")
    between: str = ""
    keys: tuple[str, str] = ("name", "arguments")
    first_id: str = ""
    last_id: str = ""
    tags: tuple[str, str, str] = ("", "", "")
    padded: bool = False
    call_id: str = ""
    bare: bool = False
    sign: str = ""

    @property
    def literals(self) -> tuple[str, ...]:
        """What every call has in it."""
        return (*self.section, self.opening, self.after_name, *self.tags, self.closing)

    @property
    def triggers(self) -> tuple[str, ...]:
        """What begins calls wherever it comes."""
        literals = (self.section[0], self.opening)
        return tuple(dict.fromkeys(text.split()[0] for text in literals if text.strip()))


HERMES = Row(
    name="hermes",
    style="object",
    opening="<tool_call>\n",
    closing="\n</tool_call>",
    between="\n",
    sign="<tool_call>",
)

ROWS = (
    HERMES,
    Row(
        name="qwen3-coder",
        style="tagged",
        opening="<tool_call>\n<function=",
        after_name=">\n",
        tags=("<parameter=", ">\n", "\n</parameter>\n"),
        padded=True,
        closing="</function>\n</tool_call>",
        between="\n",
        sign="<function=",
    ),
    Row(
        name="seed-oss",
        style="tagged",
        opening="<seed:tool_call>\n<function=",
        after_name=">\n",
        tags=("<parameter=", ">", "</parameter>\n"),
        closing="</function>\n</seed:tool_call>",
        between="\n",
        sign="<seed:tool_call>",
    ),
    Row(
        name="glm",
        style="tagged",
        opening="<tool_call>",
        after_name="\n",
        tags=("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"),
        closing="</tool_call>",
        between="\n",
        sign="<arg_key>",
    ),
    Row(
        name="glm-4.7",
        style="tagged",
        opening="<tool_call>",
        tags=("<arg_key>", "</arg_key><arg_value>", "</arg_value>"),
        closing="</tool_call>",
        sign="<arg_key>",
    ),
    Row(
        name="gemma4",
        style="gemma",
        opening="<|tool_call>call:",
        closing="<tool_call|>",
        sign="<|tool_call>",
    ),
    Row(name="harmony", style="harmony", sign="<|channel|>"),
    Row(
        name="mistral-named",
        style="json",
        opening="[TOOL_CALLS]",
        after_name="[ARGS]",
        call_id="[CALL_ID]",
        sign="[ARGS]",
    ),
    Row(
        name="mistral",
        style="object",
        section=("[TOOL_CALLS][", "]"),
        between=", ",
        last_id="id",
        sign="[TOOL_CALLS]",
    ),
    Row(
        name="mistral-v3",
        style="object",
        section=("[TOOL_CALLS] [", "]"),
        between=", ",
        last_id="id",
        sign="[TOOL_CALLS] [",
    ),
    Row(
        name="lfm2",
        style="python",
        section=("<|tool_call_start|>[", "]<|tool_call_end|>"),
        after_name="(",
        closing=")",
        between=", ",
        sign="<|tool_list_start|>",
    ),
    Row(
        name="kimi-k2",
        style="json",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        opening="<|tool_call_begin|>functions.",
        after_name="<|tool_call_argument_begin|>",
        call_id=":",
        closing="<|tool_call_end|>",
        sign="<|tool_call_begin|>",
    ),
    Row(
        name="deepseek-r1",
        style="json",
        section=(f"<{_BAR}tool▁calls▁begin{_BAR}>", f"<{_BAR}tool▁calls▁end{_BAR}>"),
        opening=f"<{_BAR}tool▁call▁begin{_BAR}>function<{_BAR}tool▁sep{_BAR}>",
        after_name="\n```json\n",
        closing=f"\n```<{_BAR}tool▁call▁end{_BAR}>",
        between="\n",
        sign=f"function<{_BAR}tool▁sep{_BAR}>",
    ),
    Row(
        name="deepseek-v3.1",
        style="json",
        section=(f"<{_BAR}tool▁calls▁begin{_BAR}>", f"<{_BAR}tool▁calls▁end{_BAR}>"),
        opening=f"<{_BAR}tool▁call▁begin{_BAR}>",
        after_name=f"<{_BAR}tool▁sep{_BAR}>",
        closing=f"<{_BAR}tool▁call▁end{_BAR}>",
        sign=f"<{_BAR}tool▁call▁begin{_BAR}>",
    ),
    Row(
        name="minimax-m2",
        style="tagged",
        section=("<minimax:tool_call>\n", "</minimax:tool_call>"),
        opening='<invoke name="',
        after_name='">\n',
        tags=('<parameter name="', '">', "</parameter>\n"),
        closing="</invoke>\n",
        sign="<minimax:tool_call>",
    ),
    Row(
        name="minicpm5",
        style="tagged",
        opening='<function name="',
        after_name='">',
        tags=('<param name="', '">', "</param>"),
        closing="</function>",
        between="\n",
        sign='<param name="',
    ),
    Row(
        name="functionary-3.1",
        style="json",
        opening="<function=",
        after_name=">",
        closing="</function>",
        sign="<function=",
    ),
    Row(
        name="cohere",
        style="object",
        section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
        between=",\n    ",
        keys=("tool_name", "parameters"),
        first_id="tool_call_id",
        sign="<|START_ACTION|>",
    ),
    Row(
        name="apriel",
        style="object",
        section=("<tool_calls>[", "]</tool_calls>"),
        between=", ",
        sign="<tool_calls>[",
    ),
    Row(
        name="nemotron-nano-2",
        style="object",
        section=("<TOOLCALL>[", "]</TOOLCALL>"),
        between=", ",
        sign="<TOOLCALL>",
    ),
    Row(
        name="minimax-m1",
        style="object",
        section=("<tool_calls>\n", "\n</tool_calls>"),
        between="\n",
        sign="<tool_calls>",
    ),
    Row(
        name="gigachat-3.1",
        style="object",
        opening="<|function_call|>",
        sign="<|function_call|>",
    ),
    Row(
        name="llama3",
        style="object",
        section=("<|python_tag|>", ""),
        between="; ",
        keys=("name", "parameters"),
        bare=True,
        sign="<|python_tag|>",
    ),
)  # fmt: skip
"""In the order in which they are tried, where nothing else decides."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """What comes before a thought and after it."""

    begin: str
    end: str


THINKING = (
    Thinking("<think>", "</think>"),
    Thinking("<seed:think>", "</seed:think>"),
    Thinking("<mm:think>", "</mm:think>"),
    Thinking("[THINK]", "[/THINK]"),
    Thinking("<|START_THINKING|>", "<|END_THINKING|>"),
    Thinking("<|channel>thought", "<channel|>"),
    Thinking("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
"""In the order in which they are looked for in a template."""

"""The environment chat templates run in: no access to Python, and a bound on time and memory.

Boundary: knows Jinja and nothing of chat. Templates come from model files, so they are untrusted.

Jinja's immutable sandbox keeps a template away from Python's internals and from changing what it
is given. It does not keep one from running for ever or from building a string of a terabyte.
Here a render has a :class:`Budget`, and the compiled template is instrumented to spend it: every
turn of a loop, every call, and every character of every string it makes. What could be large in
one single operation is refused before it is done.
"""

# ruff: noqa: ANN401 (a template's values can be anything)
from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, cast

from jinja2 import Undefined, nodes, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_UNITS = 1 << 26
"""Work a render may do: characters written, and 256 units for each loop turn and each call."""
MAX_SECONDS = 5.0
MAX_NUMBER = 10_000
"""Largest number to pass to a filter or method, where it may be a width or a count."""
MAX_BITS = 4096

_STEP = 256
_STEPS_PER_LOOK_AT_THE_CLOCK = 256
# Not needed to write a prompt, and either able to make much of little or not deterministic.
_REMOVED_FILTERS = frozenset(
    {"center", "format", "pprint", "random", "urlize", "wordwrap", "xmlattr"}
)
_WIDTH = re.compile(r"\d{5}|\*")


class TemplateLimitError(Exception):
    """A template went over one of its bounds."""


class Budget:
    """What a render may still spend."""

    def __init__(self) -> None:
        self._left = MAX_UNITS
        self._steps = 0
        self._deadline = time.monotonic() + MAX_SECONDS

    def step(self) -> None:
        """Pay for a turn of a loop or a call."""
        self.spend(_STEP)
        self._steps += 1
        if self._steps % _STEPS_PER_LOOK_AT_THE_CLOCK == 0 and time.monotonic() > self._deadline:
            raise TemplateLimitError(f"it ran for more than {MAX_SECONDS:g} seconds")

    def spend(self, units: int) -> None:
        """Pay for ``units`` characters or items."""
        self._left -= units
        if self._left < 0:
            raise TemplateLimitError("it loops too long or writes too much")

    def afford(self, units: int) -> None:
        """Check that ``units`` could be paid, before they are made."""
        if units > self._left:
            raise TemplateLimitError("it writes too much")


class _LoudUndefined(Undefined):
    """A missing variable is false and empty, but cannot be written."""

    __slots__ = ()

    def __str__(self) -> str:
        self._fail_with_undefined_error()
        raise AssertionError  # not reached


class _Instrument(NodeTransformer):
    """Routes loops, concatenations and constant text through what spends the budget."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (Jinja's name)
        self.generic_visit(node)
        node.iter = _filter(node.iter, "_counted")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.Tuple(node.nodes, "load", lineno=node.lineno), "_concatenated")

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802
        return nodes.Const(node.data, lineno=node.lineno)


def _filter(node: nodes.Node, name: str) -> nodes.Filter:
    # Jinja's types are narrower than its grammar: an iterable is a Node.
    return nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None, lineno=node.lineno)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox with a budget, set up as the field sets it up for chat templates."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants are folded when compiling, outside any budget
            undefined=_LoudUndefined,
            finalize=self._finalize,
            extensions=["jinja2.ext.loopcontrols"],
        )
        self._local = threading.local()
        known = [item for item in self.filters.items() if item[0] not in _REMOVED_FILTERS]
        filters = {name: self._guard(name, function) for name, function in known}
        filters |= {"_counted": self._counted, "_concatenated": self._concatenated}
        self.filters.clear()
        self.filters.update(filters)
        del self.globals["lipsum"]

    def open_budget(self) -> None:
        """Start a render in this thread."""
        self._local.budget = Budget()

    @property
    def _budget(self) -> Budget:
        budget: Budget = self._local.budget
        return budget

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Instrument().visit(template)
        return template

    @staticmethod
    @pass_context  # also keeps Jinja from finalizing constants when it compiles
    def _finalize(context: Context, value: object) -> object:
        environment = context.environment
        assert isinstance(environment, TemplateEnvironment)
        text = value if isinstance(value, str) else str(value)
        environment._budget.spend(len(text))
        return text

    def _counted(self, iterable: Iterable[object]) -> Iterator[object]:
        for item in iterable:
            self._budget.step()
            yield item

    def _concatenated(self, parts: tuple[object, ...]) -> str:
        text = "".join(map(str, parts))
        self._budget.spend(len(text))
        return text

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Do an operation if its result cannot be too large."""
        self._check_operands(operator, left, right)
        return self._charged(super().call_binop(context, operator, left, right))

    def _check_operands(self, operator: str, left: Any, right: Any) -> None:
        if operator == "%" and isinstance(left, str) and _WIDTH.search(left):
            raise TemplateLimitError("it formats with a large width")
        if operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(sequence, (str, bytes, list, tuple)):
                    self._budget.afford(len(sequence) * times)
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length()
            if operator == "*":
                bits += right.bit_length()
            elif operator == "**":
                bits *= max(right, 0)
            if bits > MAX_BITS:
                raise TemplateLimitError("it makes a very large number")

    def call(
        __self,  # noqa: N805 (keyword arguments of any name go to the callee)
        __context: Context,
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call a macro, a method or a function that a template names."""
        __self._budget.step()
        if isinstance(__obj, LoopContext) and args:
            args = (__self._counted(args[0]), *args[1:])
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            __self._check_arguments(__obj.__name__, owner, *args, **kwargs)
        return __self._charged(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a sandboxed ``str.format``, without large widths."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and _WIDTH.search(value.__self__):
            raise TemplateLimitError("it formats with a large width")
        return wrapped

    def _guard(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)  # with the attribute that asks Jinja for a context
        def guarded(*args: Any, **kwargs: Any) -> Any:
            operands = args[1:] if hasattr(function, "jinja_pass_arg") else args
            self._check_arguments(name, *operands, **kwargs)
            return self._charged(function(*args, **kwargs))

        return guarded

    def _check_arguments(self, name: str, subject: Any, *args: Any, **kwargs: Any) -> None:
        for value in (*args, *kwargs.values()):
            if isinstance(value, int) and abs(value) > MAX_NUMBER and name not in ("default", "d"):
                raise TemplateLimitError(f"it passes {value} to {name}")
        if name == "replace" and len(args) >= 2 and isinstance(subject, str):
            old, new = str(args[0]), str(args[1])
            self._budget.afford(len(subject) + subject.count(old) * len(new))
        if name == "join" and args:
            self._afford_join(subject, args[0])
        if name == "indent" and isinstance(subject, str):
            width = (args or (kwargs.get("width", 4),))[0]
            size = width if isinstance(width, int) else len(str(width))
            self._budget.afford(len(subject) + (subject.count("\n") + 1) * size)

    def _afford_join(self, one: Any, other: Any) -> None:
        separator, items = (one, other) if isinstance(one, str) else (other, one)
        if isinstance(items, Sized):
            self._budget.afford(len(str(separator)) * len(items))

    def _charged(self, value: Any) -> Any:
        if isinstance(value, (str, bytes, list, tuple, dict)):
            self._budget.spend(len(value))
        return value

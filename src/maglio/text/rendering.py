"""One rendering of a chat template: what it takes, what comes out, and how it can fail.

Boundary: runs Jinja where it is called, with no limit but that on the output. Imports only those
of our modules that the renderer process loads too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateSyntaxError

from maglio.text.jinja import ChatEnvironment, TemplateRefusal, clock
from maglio.text.stand_ins import StandIns, compile_with


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """What to render.

    Attributes:
        source: the template.
        values: what the template reads; texts, numbers, truth values, lists and mappings.
        own: more of it: texts that count as the template's own, such as ``bos_token``.
        pieces: pieces of text to tell the template's own characters by.
        base: code point of the first stand-in for them.
        now: what ``strftime_now`` tells, as :meth:`datetime.isoformat` writes it.
        max_output: most characters of the rendering.
    """

    source: str
    values: Mapping[str, Any]
    own: Mapping[str, str]
    pieces: tuple[str, ...]
    base: int
    now: str
    max_output: int


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a template wrote.

    Attributes:
        plain: the text.
        marked: the second rendering, with stand-ins; ``None`` where only the first succeeded.
    """

    plain: str
    marked: str | None


class RenderError(Exception):
    """A rendering failed; the message goes on from "the chat template"."""


class OutOfMemory(RenderError):  # noqa: N818 (a kind of RenderError)
    """A rendering did not fit in memory."""


_environment = ChatEnvironment()


def render(request: RenderRequest) -> Rendering:
    """Render a template twice: plainly, and with stand-ins for what it writes itself.

    Raises:
        RenderError: the plain rendering failed.
    """
    values = {"strftime_now": clock(datetime.fromisoformat(request.now))}
    plain = _guarded(
        lambda: _written(
            _template(request.source), {**values, **request.own, **request.values}, request
        )
    )
    stand_ins = StandIns(request.pieces, request.base)
    own = {name: stand_ins.put(text) for name, text in request.own.items()}
    try:
        marked = _guarded(
            lambda: _written(
                _marked_template(request.source, request.pieces, request.base),
                {**values, **own, **request.values},
                request,
            )
        )
    except OutOfMemory:
        raise
    except RenderError:
        return Rendering(plain, None)
    return Rendering(plain, marked)


@lru_cache(maxsize=16)
def _template(source: str) -> Template:
    return _environment.from_string(source)


@lru_cache(maxsize=16)
def _marked_template(source: str, pieces: tuple[str, ...], base: int) -> Template:
    template: Template = compile_with(_environment, source, StandIns(pieces, base))
    return template


def _written(template: Template, values: Mapping[str, Any], request: RenderRequest) -> str:
    parts = []
    length = 0
    for part in template.generate(values):
        length += len(part)
        if length > request.max_output:
            raise RenderError(
                f"was stopped: it wrote more than {request.max_output} characters, the limit for "
                "this conversation"
            )
        parts.append(part)
    return "".join(parts)


def _guarded(make: Callable[[], str]) -> str:
    try:
        return make()
    except RenderError:
        raise
    except TemplateRefusal as refusal:
        problem = f"refuses this: {refusal}"
    except TemplateSyntaxError as error:
        problem = f"is not valid: {_told(error)} (line {error.lineno})"
    except RecursionError:
        problem = "was stopped: it is nested or calls itself too deeply"
    except MemoryError:
        raise OutOfMemory("was stopped: it used too much memory") from None
    except Exception as error:  # a template can make any operation of Python fail
        problem = f"failed: {_told(error)}"
    raise RenderError(problem)


def _told(error: BaseException) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:500]

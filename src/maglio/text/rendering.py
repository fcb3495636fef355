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
    """Render a template plainly, and with stand-ins for what it writes itself.

    Raises:
        RenderError: the plain rendering failed.
    """
    now = datetime.fromisoformat(request.now)
    values = {"strftime_now": clock(now), **request.own, **request.values}
    plain = _guarded(lambda: _written(_template(request.source), _copy(values), request.max_output))
    return Rendering(plain, _marked(plain, values, request))


def _marked(plain: str, values: Mapping[str, Any], request: RenderRequest) -> str | None:
    """The first second rendering that is the plain one, but for the stand-ins; or else any."""
    stand_ins = StandIns(request.pieces, request.base)
    own = {name: stand_ins.put(text) for name, text in request.own.items()}
    values = {**values, **{name: own[name] for name in own if name not in request.values}}
    first: str | None = None
    for compared in (False, True):
        key = (request.source, request.pieces, request.base, compared)
        try:
            marked = _guarded(
                lambda: _written(_marked_template(*key), _copy(values), request.max_output)  # noqa: B023 (called at once)
            )
        except OutOfMemory:
            raise
        except RenderError:
            continue
        if stand_ins.take(marked) == plain:
            return marked
        first = marked if first is None else first
    return first


def _copy(value: Any) -> Any:  # noqa: ANN401  # what JSON holds
    """A copy that a template may change, so that each rendering begins with the same."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=16)
def _template(source: str) -> Template:
    return _environment.from_string(source)


@lru_cache(maxsize=32)
def _marked_template(source: str, pieces: tuple[str, ...], base: int, compared: bool) -> Template:
    return compile_with(_environment, source, StandIns(pieces, base), compared=compared)


def _written(template: Template, values: Mapping[str, Any], limit: int) -> str:
    parts = []
    length = 0
    for part in template.generate(values):
        length += len(part)
        if length > limit:
            raise RenderError(
                f"was stopped: it wrote more than {limit} characters, the limit for "
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

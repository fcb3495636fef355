"""How exact a loaded model is: found by a quick check, and what follows from that.

Boundary: joins the quick check, which knows no text, with texts; decides what ``exact`` of
:func:`maglio.load` means. The native engine is not checked: its rows are bitwise by construction,
and ``maglio doctor`` tests that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from maglio.engine.base import Engine
from maglio.engine.native import NativeEngine
from maglio.engine.quick_check import N_STREAMS, N_TOKENS, QuickCheck, quick_check
from maglio.engine.registry import Opened
from maglio.errors import ExactnessError, MaglioError
from maglio.text.real_text import real_streams

Exact = Literal["accept", "guard", "require"]
EXACT: tuple[Exact, ...] = ("accept", "guard", "require")


def check_exactness(opened: Opened, exact: str) -> QuickCheck | None:
    """Find how exact an engine is, and let its ``exactness`` say so.

    Args:
        opened: the model.
        exact: one of :data:`EXACT`.

    Returns:
        What was found; ``None`` for the native engine.

    Raises:
        ExactnessError: rows are not bitwise, and ``exact`` is ``require``.
        MaglioError: the engine claims more than was found, and cannot be told so; or plain
            decoding fails.
    """
    engine = opened.engine
    if isinstance(engine, NativeEngine):
        return None
    streams = real_streams(opened.tokenizer, N_STREAMS, N_TOKENS, engine.n_vocab)
    found = quick_check(engine, streams)
    if exact == "require" and found.exactness != "bitwise":
        raise ExactnessError(_refusal(engine, opened.path, found))
    _tell(engine, found)
    return found


def _refusal(engine: Engine, path: Path, found: QuickCheck) -> str:
    remedy = str(getattr(engine, "exactness_remedy", ""))
    return (
        f"{path}: the engine {engine.name!r} is not exact here, as exact='require' asks: {found}. "
        + (f"To make it more exact: {remedy}. " if remedy else "")
        + "exact='guard' takes close decisions from rows that are computed alone; the engine "
        "'native' is exact for the GGUF files that it runs"
    )


def _tell(engine: Engine, found: QuickCheck) -> None:
    if engine.exactness == found.exactness:
        return
    try:
        engine.exactness = found.exactness  # type: ignore[misc]  # read-only to all others
    except AttributeError:
        if found.exactness == "bitwise":  # it says less than it does
            return
        raise MaglioError(
            f"the engine {engine.name!r} says that its rows are bitwise, and they are not: "
            f"{found}. Its exactness must be an attribute that can be set, or say 'distribution'"
        ) from None

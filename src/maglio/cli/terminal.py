"""What a terminal shows of a generation: text coloured by source, and one summary line."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Literal, TextIO

import maglio
from maglio.cli.streams import emit, note
from maglio.decode import GenerationStats, SamplingParams

Color = Literal["auto", "on", "off"]

_RESET = "\x1b[0m"
_STYLES = {
    "conversation": "\x1b[36m",
    "reference": "\x1b[32m",
    "recycling": "\x1b[33m",
    "history": "\x1b[34m",
    "prediction": "\x1b[35m",
}
_DIM = "\x1b[2m"
# Control characters other than tab and newline: model output must not steer the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def wants_color(choice: Color, stream: TextIO) -> bool:
    """Whether to colour what is written to ``stream``; ``NO_COLOR`` turns ``auto`` off."""
    if choice != "auto":
        return choice == "on"
    return stream.isatty() and not os.environ.get("NO_COLOR")


class TokenWriter:
    """Writes the text of tokens as it comes."""

    def __init__(self, stream: TextIO, *, color: bool) -> None:
        self._stream = stream
        self._color = color
        self._tame = stream.isatty()

    def write(self, text: str, source: str) -> None:
        """Write and show ``text`` at once."""
        if not text:
            return
        if self._tame:
            text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
        style = _STYLES.get(source.split(":")[0], "") if self._color else ""
        if source == "thinking" and (self._color or self._tame):
            style = _DIM
        emit(self._stream, f"{style}{text}{_RESET}" if style else text)


class LoadProgress:
    """Shows on stderr how far a model is loaded, if that takes long and stderr is a terminal.

    A context manager around the load.
    """

    _SOON_S = 1.0

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` bytes are loaded."""
        if not sys.stderr.isatty() or time.monotonic() - self._began < self._SOON_S:
            return
        self._shown = done < total
        shown = f"loading the model: {done / 1e9:.1f} of {total / 1e9:.1f} GB"
        note(f"\r\x1b[K{shown if self._shown else ''}", end="")

    def __enter__(self) -> LoadProgress:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take away what is shown still, when loading did not come to its end."""
        if self._shown:
            note("\r\x1b[K", end="")


class PrefillProgress:
    """Shows on stderr how far a long prompt has been read, if stderr is a terminal."""

    _LONG = 512

    def __call__(self, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` prompt tokens are read."""
        if total < self._LONG or not sys.stderr.isatty():
            return
        note(f"\rreading the prompt: {done} of {total} tokens", end="")
        if done == total:
            note("\r\x1b[K", end="")


def summary(stats: GenerationStats) -> str:
    """One line about a generation."""
    parts = [
        f"prompt {stats.prompt_tokens} tokens, {stats.prompt_tokens_per_s:.1f} tok/s",
        f"generation {stats.committed} tokens, {stats.tokens_per_s:.1f} tok/s",
    ]
    if stats.drafted:
        parts.append(
            f"accepted {stats.accepted}/{stats.drafted} ({100 * stats.acceptance_rate:.0f}%)"
            + _by_source(stats)
        )
    parts.append(f"{stats.tokens_per_step:.2f} tokens/step")
    return " | ".join(parts)


def _by_source(stats: GenerationStats) -> str:
    """What each source contributed, when several did or could: one alone is the sum already."""
    if len(stats.sources) < 2:
        return ""
    shown = [
        f"{name} {counts.accepted}/{counts.drafted}{' muted' if counts.muted else ''}"
        for name, counts in stats.sources.items()
        if counts.drafted or counts.muted
    ]
    return f": {', '.join(shown)}"


def details(stats: GenerationStats) -> str:
    """Several lines about a generation."""
    lines = [
        f"steps {stats.steps}, of which {stats.verify_steps} verified a draft",
        f"prefill {stats.prefill_s:.3f} s, decode {stats.decode_s:.3f} s, "
        f"of which {stats.overhead_s:.3f} s outside forwards",
    ]
    for name, counts in stats.sources.items():
        muted = " (muted)" if counts.muted else ""
        lines.append(f"{name}: accepted {counts.accepted} of {counts.drafted} drafted{muted}")
    if stats.gate_trips or stats.gate_disabled_steps:
        lines.append(
            f"drafting did not pay: switched off {_times(stats.gate_trips)}, tried again "
            f"{_times(stats.gate_probes)}, {stats.gate_disabled_steps} plain steps in between"
        )
    if stats.recomputed:
        lines.append(
            f"{stats.recomputed} rows were computed again alone: the choice from them was too close"
        )
    if stats.source_error is not None:
        lines.append(f"drafting stopped: {stats.source_error}")
    return "\n".join(lines)


def note_engine(model: maglio.Model) -> None:
    """Say what computes, how exact that is, and the precision of its KV cache where it is told."""
    engine = model.engine
    found = "" if model.checked is None else f" ({model.checked})"
    note(f"engine {engine.name}, {engine.exactness}{found}")
    if kv_cache := getattr(engine, "kv_cache", None):
        note(f"KV cache {kv_cache}")


def note_seed(params: SamplingParams) -> None:
    """Say by which seed a run can be repeated, if it draws random numbers at all."""
    if params.temperature > 0:
        note(f"seed {params.seed}")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"

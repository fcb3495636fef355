"""A model examined: the trials on it, and on it with other settings.

Boundary: gets a function that opens the model with a setting; one is open at a time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from maglio.engine.base import Engine, Exactness, Logits
from maglio.engine.trial import Comparison, Trial
from maglio.engine.trials import (
    BESIDE,
    CONTEXTS,
    attempt,
    most_tokens,
    plain_rows,
    rows_together,
    trials,
)
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.model import Model
from maglio.text.real_text import real_streams

N_CTX = most_tokens(max(CONTEXTS))
"""Positions that an examination needs at most."""

KV_CACHES = ("f16", "q8_0")
_SOME_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a model is opened. ``None`` is what the engine chooses."""

    threads: int | None = None
    kv_cache: str = "f16"


Open = Callable[[Setting], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What came out.

    Attributes:
        engine: its name,
        promised: what it says of itself,
        exactness: what is relied on: the same for the native engine, and for others what the quick
            check found when the model was loaded;
        can_rewind: and whether a draft can be taken back.
        remedy: what makes it more exact, as the engine says; empty where it does not.
        threads: number of threads; 0 where it does not say.
        isa: instruction set,
        kv_cache: and precision of the KV cache; empty where it does not say.
        load_s: seconds until it was open,
        again_s: and when it was opened again; ``None`` if it was not.
        probed: whether verify steps were measured here before.
        trials: in the order in which they were made.
    """

    engine: str
    promised: Exactness
    exactness: Exactness
    can_rewind: bool
    remedy: str
    threads: int
    isa: str
    kv_cache: str
    load_s: float
    again_s: float | None
    probed: bool
    trials: tuple[Trial, ...]

    @property
    def bitwise(self) -> bool:
        """Whether every row of every trial was equal in every bit."""
        return all(trial.bitwise for trial in self.trials)

    @property
    def broken(self) -> bool:
        """Whether the engine promises rows that are bitwise, and some were not; or one failed."""
        failed = any(trial.error for trial in self.trials)
        return failed or (self.promised == "bitwise" and not self.bitwise)


def examine(
    open_model: Open,
    setting: Setting,
    *,
    most_threads: int,
    probed: Callable[[Model], bool] = lambda _: False,
    on_trial: Callable[[Trial], object] = lambda _: None,
) -> Examined:
    """Try a model on an engine.

    Args:
        open_model: opens it, with at least :data:`N_CTX` positions if it has so many.
        setting: how it is used.
        most_threads: other numbers of threads are tried up to this.
        probed: whether the verify steps of a model were measured here.
        on_trial: is told of each trial that is done.

    Raises:
        InvalidArgumentError: the model's context is too short to try anything.
        MaglioError: the model cannot be opened, or plain decoding itself fails.
    """
    opened = _Timed(open_model)
    model = opened(setting)
    engine = model.engine
    contexts = [n for n in CONTEXTS if most_tokens(n) <= engine.n_ctx]
    if not contexts:
        raise InvalidArgumentError(
            f"the context of {engine.n_ctx} tokens is too short to try anything; "
            f"{most_tokens(CONTEXTS[0])} are needed"
        )
    n_tokens = most_tokens(contexts[-1])
    streams = real_streams(model.tokenizer, 1 + len(BESIDE), n_tokens, engine.n_vocab)
    done: list[Trial] = []

    def note(trial: Trial) -> None:
        done.append(trial)
        on_trial(trial)

    for context in contexts:
        for trial in trials(engine, streams, context):
            note(trial)
    expected = _some_rows(engine, streams[0], contexts[0])
    own_threads = int(getattr(engine, "threads", 0))
    found = partial(
        Examined,
        engine=engine.name,
        promised=model.promised,
        exactness=engine.exactness,
        can_rewind=engine.can_rewind,
        remedy=str(getattr(engine, "exactness_remedy", "")),
        threads=own_threads,
        isa=str(getattr(engine, "isa", "")),
        kv_cache=str(getattr(engine, "kv_cache", "")),
        probed=probed(model),
    )
    del model, engine
    others = _Others(opened, setting, streams[0], contexts[0])
    for threads in _thread_counts(most_threads, own_threads):
        note(others.threads(threads, expected))
    for kv_cache in KV_CACHES:
        if kv_cache != setting.kv_cache and (tried := others.kv_cache(kv_cache)) is not None:
            note(tried)
    load_s, *again = opened.seconds
    return found(load_s=load_s, again_s=min(again, default=None), trials=tuple(done))


class _Timed:
    """Opens models, and notes how long that takes."""

    def __init__(self, open_model: Open) -> None:
        self._open = open_model
        self.seconds: list[float] = []

    def __call__(self, setting: Setting) -> Model:
        gc.collect()  # models are parts of cycles, and another one may not fit beside this one
        begin = time.perf_counter()
        model = self._open(setting)
        self.seconds.append(time.perf_counter() - begin)
        return model


class _Others:
    """The model with other settings, each opened for one trial."""

    def __init__(
        self, open_model: Open, setting: Setting, stream: Sequence[int], context: int
    ) -> None:
        self._open = open_model
        self._setting = setting
        self._stream = stream
        self._context = context

    def threads(self, threads: int, expected: Logits) -> Trial:
        """Whether another number of threads gives the same rows."""

        def trial() -> Comparison:
            setting = Setting(threads=threads, kv_cache=self._setting.kv_cache)
            found = Comparison()
            engine = self._open(setting).engine
            found.add(_some_rows(engine, self._stream, self._context), expected)
            return found

        return attempt(f"with {threads} thread{'s' * (threads > 1)}", self._context, trial)

    def kv_cache(self, kv_cache: str) -> Trial | None:
        """Whether another KV cache keeps the promise too; ``None`` if the engine has none such."""
        try:
            model = self._open(Setting(threads=self._setting.threads, kv_cache=kv_cache))
        except MaglioError:
            return None

        def trial() -> Comparison:
            found = Comparison()
            expected = plain_rows(model.engine, self._stream, self._context)
            found.add(rows_together(model.engine, self._stream, self._context), expected)
            return found

        return attempt(f"with the KV cache in {kv_cache}", self._context, trial)


def _some_rows(engine: Engine, stream: Sequence[int], context: int) -> Logits:
    return plain_rows(engine, stream, context, _SOME_ROWS)


def _thread_counts(most: int, own: int) -> list[int]:
    """1, 2, half and all: each opens the model once more."""
    return sorted({1, min(2, most), max(1, most // 2), most} - {own})

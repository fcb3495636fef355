"""What the findings mean: one sentence, and settings that would improve things.

Boundary: findings in, words out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from maglio.doctor.examination import Examined
from maglio.doctor.machine_facts import MachineFacts
from maglio.doctor.model_facts import ModelFacts

SLOW_BYTES_PER_S = 300e6
"""A disk that is slower than this is worth a word."""

_SLOW_BYTES = 50_000_000
_MUCH_OF_MEMORY = 0.25
_BUSY = 0.5


def verdict(examined: Examined) -> str:
    """Whether the engine keeps what it promises, and what follows from that."""
    failed = [trial for trial in examined.trials if trial.error]
    if failed:
        return (
            f"The engine failed {failed[0].name}: {failed[0].error}. What it computes so cannot be "
            "relied on."
        )
    rows = sum(trial.rows for trial in examined.trials)
    if examined.bitwise:
        kept = f"All {rows} rows were, to the bit, those of plain decoding"
        if examined.promised == "bitwise":
            return f"{kept}, as the engine promises: speculation and other streams change no token."
        return (
            f"{kept}, though the engine does not promise it: here speculation and other streams "
            "changed no token."
        )
    different = rows - sum(trial.equal for trial in examined.trials)
    flips = sum(trial.flips for trial in examined.trials)
    largest = max(trial.largest for trial in examined.trials)
    found = (
        f"{different} of {rows} rows differed from plain decoding, by {largest:.2g} at most, and "
        f"{flips} had another most likely token"
    )
    if examined.promised == "bitwise":
        return (
            f"The engine promises rows that are the same to the bit, and broke it: {found}. Please "
            "report this with the model and the machine; until then use --no-spec and one stream."
        )
    if examined.exactness == "bitwise":
        return (
            f"{found}. The quick check when the model was loaded found none of these: do not rely "
            "on its answer here."
        )
    return (
        f"{found}. The engine promises no more: speculation keeps probabilities up to rounding, "
        "not every token."
    )


def advice(
    facts: MachineFacts, examined: Examined | None = None, model: ModelFacts | None = None
) -> Iterator[str]:
    """Settings that would improve it, each in a sentence."""
    if facts.isa != facts.isas[0]:
        yield f"MAGLIO_ISA is {facts.isa}; without it {facts.isas[0]} is used, which is faster."
    if facts.load is not None and facts.load > facts.cores * (1 + _BUSY):
        yield (
            f"Other programs keep the {facts.cores} cores busy (load {facts.load:.1f}); speeds "
            "measured now are too low."
        )
    if examined is not None:
        yield from _of_engine(facts, examined, model)
    if examined is not None and model is not None:
        yield from _of_model(facts, examined, model)


def _of_engine(facts: MachineFacts, examined: Examined, model: ModelFacts | None) -> Iterator[str]:
    if examined.threads and examined.threads != facts.cores:
        yield (
            f"The number of threads is {examined.threads}, and that of the cores that may be used "
            f"{facts.cores}; --threads {facts.cores} is usually the fastest."
        )
    if not examined.bitwise and examined.promised != "bitwise":
        if examined.remedy:
            yield f"To make rows more exact: {examined.remedy}."
        if examined.can_rewind:
            yield "With --exact guard, close decisions are taken from rows that are computed alone."
    if not examined.can_rewind:
        yield "The engine cannot take tokens back, so nothing is drafted with it."
    elif not examined.probed and model is not None:
        yield (
            f"What a verify step costs was never measured here, so a table is used: run maglio "
            f"probe {model.path}"
        )


def _of_model(facts: MachineFacts, examined: Examined, model: ModelFacts) -> Iterator[str]:
    # What loading takes the second time is not the disk's doing.
    again_s = math.inf if examined.again_s is None else examined.again_s
    rate = model.bytes / max(examined.load_s - again_s, 1e-9)
    if examined.load_s > again_s and model.bytes > _SLOW_BYTES and rate < SLOW_BYTES_PER_S:
        yield (
            f"The file was read at about {rate / 1e6:.0f} MB/s; a faster disk helps, and so does "
            "--cache-weights from the second start on."
        )
    if facts.memory and examined.kv_cache == "f16" and model.cache_bytes is not None:
        share = model.cache_bytes / facts.memory
        if share > _MUCH_OF_MEMORY:
            yield (
                f"At its whole context of {model.context_length:,} tokens the KV cache takes "
                f"{model.cache_bytes / 1e9:.1f} GB; --kv-cache q8_0 takes about half."
            )

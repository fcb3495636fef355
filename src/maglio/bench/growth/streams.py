"""Tokens per second of more and more prompts at a time.

Boundary: runs a model as its users do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from maglio.bench.field.line import GrowthPoint
from maglio.bench.growth.quantity import Quantity, Wanted
from maglio.bench.growth.scale import Scale
from maglio.decode import SamplingParams
from maglio.errors import MaglioError
from maglio.model import Model
from maglio.speculation import Speculation

_EXPECTED = "O(n), then O(1)"
STREAMS = Quantity(
    curve="streams together",
    x_name="streams",
    unit="tokens/s",
    expected={"plain": _EXPECTED, "with drafts": _EXPECTED},
)
# Rounds repeat a prompt: what earlier ones said would be drafted from.
_ALONE = Speculation(history=False)
_PROMPT = "A list of {}, one sentence each:\n1."
_TOPICS = (
    "planets", "months", "kitchen tools", "prime numbers", "river fish", "parts of a bicycle",
    "musical instruments", "chess pieces", "kinds of bread", "garden birds", "bones of the hand",
    "sailing ships", "winter sports", "rooms of a house", "trees of the forest", "weights",
    "precious stones", "capital cities", "types of cloud", "farm animals", "board games",
    "spices", "metals", "kinds of cheese", "wild flowers", "crafts", "great rivers", "insects",
    "summer fruits", "dances", "colours", "knots",
)  # fmt: skip


def stream_points(
    model: Model, scale: Scale, wanted: Wanted, *, clock: Callable[[], float] = perf_counter
) -> Iterator[GrowthPoint]:
    """Generate after 1 to :attr:`Scale.streams` prompts, all at a time, plainly and with drafts."""
    endless = SamplingParams(logit_bias={token: float("-inf") for token in model.tokenizer.eog_ids})
    for count in scale.streams:
        if count > model.engine.max_rows or not STREAMS.is_wanted(count, wanted):
            continue
        rates: dict[str, list[float]] = {"plain": [], "with drafts": []}
        for repetition in range(1 + scale.rounds):
            for name, speculation in (("plain", False), ("with drafts", _ALONE)):
                begin = clock()
                done = model.generate_many(
                    [_prompt(number) for number in range(count)],
                    max_parallel=count,
                    max_tokens=scale.stream_tokens,
                    sampling=endless,
                    speculation=speculation,
                )
                spent = clock() - begin
                failed = next((each.error for each in done if each.error is not None), None)
                if failed is not None:
                    raise MaglioError(f"{count} streams together failed: {failed}")
                if repetition > 0:  # the first one warms up
                    rates[name].append(sum(len(each.tokens) for each in done) / spent)
        for name, values in rates.items():
            yield STREAMS.point(count, values, series=name)


def _prompt(number: int) -> str:
    return _PROMPT.format(_TOPICS[number % len(_TOPICS)])

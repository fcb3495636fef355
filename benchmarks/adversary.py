"""What a draft source that is always wrong costs: decoding with it and without it, by turns.

Run it as ``python benchmarks/adversary.py --model model.gguf``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import maglio
from maglio.draft.source import Draft, DraftSource, Step
from maglio.economics.probe import Spread

PROMPT = "A history of the windmill, from its beginnings to the present day.\n\n"


class AlwaysWrong(DraftSource):
    """Proposes a token that the model never writes, as often as it may."""

    def __init__(self, token: int) -> None:
        self._token = token

    def propose(self, stream: Sequence[int], limit: int) -> Draft:
        """As many wrong tokens as are wanted."""
        return Draft([self._token] * limit)

    def observe(self, step: Step) -> None:
        """Learn nothing."""


def unused_token(tokens: Sequence[int]) -> int:
    """An id that does not occur among ``tokens``."""
    used = set(tokens)
    return next(token for token in range(len(used) + 1) if token not in used)


def main() -> None:
    """Measure, print, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="GGUF file; the default model otherwise")
    parser.add_argument("--max-tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    model = maglio.load(given.model, n_ctx=given.max_tokens + 64)
    # An answer that ends early would say little.
    never_ends = maglio.SamplingParams(
        logit_bias=dict.fromkeys(model.tokenizer.eog_ids, float("-inf"))
    )
    expected = model.generate(
        PROMPT, max_tokens=given.max_tokens, sampling=never_ends, speculation=False
    )
    wrong = unused_token(expected.tokens)
    ratios = []
    for number in range(given.rounds):
        speeds = {}
        for adversarial in (number % 2 == 1, number % 2 == 0):
            how = maglio.Speculation(source=AlwaysWrong(wrong), history=False)
            out = model.generate(
                PROMPT,
                max_tokens=given.max_tokens,
                sampling=never_ends,
                speculation=how if adversarial else False,
            )
            if out.tokens != expected.tokens:
                raise SystemExit("the source changed the output")
            speeds[adversarial] = out.stats.tokens_per_s
            if adversarial:
                stats = out.stats
        ratios.append(speeds[True] / speeds[False])
    spread = Spread.of(ratios)
    print(
        f"{len(expected.tokens)} tokens, with the source {spread.median:.3f} of the plain speed "
        f"({min(ratios):.3f}-{max(ratios):.3f}); {stats.drafted} tokens drafted, "
        f"{stats.accepted} accepted, {stats.gate_trips} trips, {stats.gate_probes} probes"
    )
    print(json.dumps({"ratios": ratios, "spread": asdict(spread), "drafted": stats.drafted}))


if __name__ == "__main__":
    main()

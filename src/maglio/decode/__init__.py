"""Decoding: picking tokens, verifying drafts, statistics. Knows token ids and no text."""

from maglio.decode.drafter import Drafter
from maglio.decode.guard import MarginGuard
from maglio.decode.logprob import TokenLogprob
from maglio.decode.params import SamplingParams
from maglio.decode.picker import Picker
from maglio.decode.run import run
from maglio.decode.scheduler import Scheduler
from maglio.decode.sequence import Sequence
from maglio.decode.stats import GenerationStats, SourceCounts, total
from maglio.decode.token import Token
from maglio.decode.turn import FinishReason

__all__ = [
    "Drafter",
    "FinishReason",
    "GenerationStats",
    "MarginGuard",
    "Picker",
    "SamplingParams",
    "Scheduler",
    "Sequence",
    "SourceCounts",
    "Token",
    "TokenLogprob",
    "run",
    "total",
]

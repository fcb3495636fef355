"""Decoding: sampling, draft verification and statistics. Imports drafting and engine seams only."""

from maglio.decode.decoder import SpeculativeDecoder
from maglio.decode.options import DecodeOptions, FinishReason
from maglio.decode.params import SamplingParams
from maglio.decode.sampler import Sampler
from maglio.decode.stats import GenerationStats, total
from maglio.decode.token import Token

__all__ = [
    "DecodeOptions",
    "FinishReason",
    "GenerationStats",
    "Sampler",
    "SamplingParams",
    "SpeculativeDecoder",
    "Token",
    "total",
]

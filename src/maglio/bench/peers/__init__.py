"""Drafting rules of other systems, from their published descriptions, to be compared with.

Each is a :class:`~maglio.draft.source.DraftSource` with its own defaults. They are written to draft
what the originals draft, not to be fast.
"""

from maglio.bench.peers.ngram_mod import NgramModSource, NgramModTable
from maglio.bench.peers.ngram_simple import NgramSimpleSource
from maglio.bench.peers.prompt_lookup import PromptLookupSource
from maglio.bench.peers.suffix_decoding import PastOutputs, SuffixDecodingSource

__all__ = [
    "NgramModSource",
    "NgramModTable",
    "NgramSimpleSource",
    "PastOutputs",
    "PromptLookupSource",
    "SuffixDecodingSource",
]

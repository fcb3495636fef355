"""Which special tokens take along the white space beside them.

GGUF files do not say so. These are the rules of llama.cpp (``llama_vocab::impl::load``), which go
by the names of models.
"""

from __future__ import annotations

from collections.abc import Mapping

from maglio.text.metadata import Metadata

_MASKS = {"jina-v2-de": "<mask>", "jina-v2-es": "<mask>", "jina-v2-code": "<mask>"}
_PHI3_BEGINS = ("<unk>", "<s>", "<|endoftext|>")

Stripping = tuple[frozenset[int], frozenset[int]]


def stripping(metadata: Metadata, ids: Mapping[str, int]) -> Stripping:
    """The tokens that take white space before them, and those that take what follows.

    Only special tokens are looked for in a text, so it does not matter that others are among them.
    """
    name = metadata.text("general.name").lower()
    mask = _MASKS.get(metadata.text("tokenizer.ggml.pre"), "")
    if not mask and ("phi-3" in name or "phi3" in name):
        return frozenset(), frozenset(ids.values()) - {ids.get(text) for text in _PHI3_BEGINS}
    if not mask and "modern-bert" in name:
        mask = "[MASK]"
    return frozenset({ids[mask]} if mask in ids else ()), frozenset()

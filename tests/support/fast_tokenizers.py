"""Small tokenizers of the ``tokenizers`` library, made here."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

CONTROL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")


def byte_level(*, adds_bos: bool = False, control: Sequence[str] = CONTROL) -> Tokenizer:
    """All bytes, some pairs of letters, ``<think>`` as text, and control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in "aeiou" for b in "nrst"]
    vocabulary = {text: i for i, text in enumerate([*alphabet, *(a + b for a, b in pairs)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in control])
    if adds_bos:
        first = (control[0], tokenizer.token_to_id(control[0]))
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first[0]} $A", special_tokens=[first]
        )
    return tokenizer


def spaced(scheme: str) -> Tokenizer:
    """Spaces are ▁, other characters are spelled in bytes where they are not tokens."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁"]
    texts += [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pairs = [("▁", letter) for letter in "abcdefgh"]
    vocabulary = {text: i for i, text in enumerate([*texts, *(a + b for a, b in pairs)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, unk_token="<unk>", byte_fallback=True))
    if scheme == "prepend":
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in texts[:3]])
    return tokenizer

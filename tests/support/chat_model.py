"""A tiny model that can chat: random weights, a small vocabulary, and a chat template."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import maglio
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from maglio.text import from_metadata
from support.gguf_bytes import RawGguf
from support.models import TINY, Family, write_model

CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
STOP = 256 + 41 + CONTROL.index("<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRIPPING = TEMPLATE.replace(
    "{{ message.content }}",
    "{{ message.content.split('e')[-1] if message.role == 'assistant' else message.content }}",
)
"""Writes answers differently when they are history, as templates do that drop thinking."""


@cache
def vocabulary() -> dict[str, object]:
    """Byte-level: all bytes, 41 pairs of letters, and the control tokens; 300 ids."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = [chr(c) for c in (*printable, *range(0x100, 0x144))]
    merges = [f"{a} {b}" for a in "aeiouy" for b in "nrstlmd"][:41]
    tokens = [*characters, *(merge.replace(" ", "") for merge in merges), *CONTROL]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": np.array([1] * 297 + [3] * 3, np.int32),
        "tokenizer.ggml.bos_token_id": 299,
        "tokenizer.ggml.eos_token_id": 298,
    }


def chat_model(
    folder: Path,
    *,
    template: str | dict[str, str] | None = TEMPLATE,
    n_ctx: int = 256,
    family: Family = "llama",
) -> maglio.Model:
    """Load the model, writing it to ``folder`` first."""
    path = folder / f"{family}.gguf"
    if not path.exists():
        write_model(path, family, replace(TINY[family], n_ctx=4096), "Q8_0", seed=3)
    engine = NativeEngine(ModelFile(path), n_ctx=n_ctx, threads=1)
    return maglio.Model(engine, from_metadata(vocabulary()), chat_template=template, path=path)


def write_chat_model(path: Path, family: str = "llama") -> Path:
    """A file of such a model, with the vocabulary and the template in it."""
    write_model(path, family, replace(TINY["llama"], n_ctx=4096), "Q8_0", seed=3)
    raw = RawGguf.read(path)
    for key, value in {**vocabulary(), "tokenizer.chat_template": TEMPLATE}.items():
        raw.set(key, value)
    path.write_bytes(raw.to_bytes())
    return path

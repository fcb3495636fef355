"""Metadata of a model that cannot be honoured, and files that do not fit together or in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import maglio
from maglio.engine.native.families import all_families
from maglio.engine.session import Session
from maglio.errors import ModelFileError, OutOfMemoryError
from maglio.gguf import ModelFile
from support.gguf_bytes import FLOAT64, UINT64, RawGguf
from support.small_files import Files, complaint, load, take_apart
from support.spm_vocabulary import SPM


def test_another_architecture_is_refused_by_name(raw: RawGguf, folder: Path) -> None:
    raw.set("general.architecture", "mamba")
    message = complaint(raw.to_bytes(), folder)
    assert "'mamba'" in message
    assert ", ".join(sorted(all_families())) in message


def test_an_absurd_architecture_makes_no_absurd_message(raw: RawGguf, folder: Path) -> None:
    raw.set("general.architecture", "x" * 10**6)
    assert len(complaint(raw.to_bytes(), folder)) < 1000


NUMBERS = [
    "block_count", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count", "context_length",
]  # fmt: skip
STRANGE = [
    "text", True, 0, 2**32 - 1, 3, 1, 17, 4096, 2**20, -1.0, 1e-40, 1e38, float("nan"),
    float("inf"), np.zeros(3, np.int32), np.zeros(0, np.int32), ["a", "b"],
]  # fmt: skip


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers_of_a_wrong_type_or_size_are_refused(raw: RawGguf, folder: Path, key: str) -> None:
    entries = list(raw.values)
    refused = 0
    for value in STRANGE:
        raw.values = list(entries)
        raw.set(f"llama.{key}", value)
        try:
            Session(load(raw.to_bytes(), folder)).forward([1])
        except ModelFileError:
            refused += 1
    assert refused >= 8


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("llama.rope.freq_base", 5e-324, FLOAT64),
        ("llama.rope.freq_base", 1e308, FLOAT64),
        ("llama.block_count", 2**63, UINT64),
        ("llama.expert_count", np.ones(2, np.int32), None),
        ("llama.expert_count", 8, None),
        ("llama.rope.scaling.type", np.ones(2, np.int32), None),
        ("llama.rope.scaling.type", "yarn", None),
        ("llama.rope.dimension_count", 8, None),
        ("llama.attention.value_length", 32, None),
    ],
)
def test_metadata_the_engine_cannot_honour_is_refused(
    raw: RawGguf, folder: Path, key: str, value: object, kind: int | None
) -> None:
    raw.set(key, value, kind)
    complaint(raw.to_bytes(), folder)


def test_a_dense_model_may_say_that_it_has_no_experts(raw: RawGguf, folder: Path) -> None:
    raw.set("llama.expert_count", 0)
    load(raw.to_bytes(), folder)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.gguf", tmp_path, "nul\0byte.gguf"):
        with pytest.raises(ModelFileError, match="cannot read"):
            ModelFile(path)


def test_a_model_beyond_the_memory_is_refused_before_it_is_read(
    sound: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maglio.machine.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemoryError, match="smaller or more strongly quantized"):
        load(sound["llama"], folder)


@pytest.mark.parametrize("change", [-1, 5])
def test_a_vocabulary_of_another_size_than_the_embedding_is_refused(
    sound: Files, folder: Path, change: int
) -> None:
    raw = take_apart(sound, folder, "with a vocabulary")
    tokens = [*SPM["tokenizer.ggml.tokens"], *"vwxyz"][: len(SPM["tokenizer.ggml.tokens"]) + change]
    raw.set("tokenizer.ggml.tokens", tokens)
    raw.set("tokenizer.ggml.scores", np.zeros(len(tokens), np.float32))
    kinds = np.ones(len(tokens), np.int32)
    kinds[4:260] = 6
    raw.set("tokenizer.ggml.token_type", kinds)
    (folder / "model.gguf").write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match=rf"model.gguf.* {len(tokens)} tokens .* 268"):
        maglio.load(folder / "model.gguf")


@pytest.mark.parametrize("key", ["model", "tokens"])
def test_a_vocabulary_that_lacks_a_part_names_the_file(
    sound: Files, folder: Path, key: str
) -> None:
    raw = take_apart(sound, folder, "with a vocabulary")
    raw.drop(f"tokenizer.ggml.{key}")
    (folder / "model.gguf").write_bytes(raw.to_bytes())
    with pytest.raises(ModelFileError, match=r"model\.gguf"):
        maglio.load(folder / "model.gguf")

"""What the benchmark of the engine says a machine allows, and a forward needs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from support.models import TINY_K, Shape
from support.tiny import TinyModels

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from maglio.machine_speed import MachineSpeed
from model_work import ModelWork


def work_of(tiny: TinyModels, family: str, fmt: str, shape: Shape) -> tuple[ModelWork, int]:
    path = tiny.path(family, fmt, shape)
    engine = NativeEngine(ModelFile(path), threads=1)
    return ModelWork.of(ModelFile(path), engine), engine.weight_bytes


def products(shape: Shape) -> int:
    """Of a row of a plain block: queries, outputs, keys and values, gate, up and down."""
    return shape.n_layer * shape.n_embd * (2 * shape.n_q + 2 * shape.n_kv + 3 * shape.n_ff)


@pytest.mark.parametrize("tied", [True, False])
def test_a_forward_reads_every_weight_once_and_multiplies_it_by_every_row(
    tiny: TinyModels, tied: bool
) -> None:
    shape = replace(TINY_K["llama"], tied=tied, n_vocab=304)
    work, weight_bytes = work_of(tiny, "llama", "Q8_0", shape)
    head = shape.n_vocab * shape.n_embd
    assert work.multiply_adds(1, logits=1) == products(shape) + head
    assert work.multiply_adds(8, logits=1) == 8 * products(shape) + head
    looked_up = 0 if tied else head * 34 // 32
    cache = 5 * 2 * 2 * shape.n_layer * shape.n_kv
    assert work.bytes_read(3, 5, logits=1) == weight_bytes - looked_up + cache


def test_a_row_needs_the_experts_that_it_takes(tiny: TinyModels) -> None:
    shape = replace(TINY_K["qwen3moe"], n_vocab=304)
    work, weight_bytes = work_of(tiny, "qwen3moe", "Q8_0", shape)
    embd, ff = shape.n_embd, shape.n_ff
    experts = shape.n_layer * shape.n_expert * 3 * embd * ff * 34 // 32
    read = work.bytes_read(1, 0, logits=1)
    assert read == weight_bytes - shape.n_vocab * embd * 34 // 32 - experts / 2
    assert work.bytes_read(2, 0, logits=2) is None
    attention = shape.n_layer * embd * (2 * shape.n_q + 2 * shape.n_kv)
    taken = shape.n_layer * shape.n_used * 3 * embd * ff
    assert work.multiply_adds(2, logits=0) == 2 * (attention + taken)


def test_float_weights_are_no_products_of_bytes(tiny: TinyModels) -> None:
    work, _ = work_of(tiny, "llama", "F16", TINY_K["llama"])
    assert work.multiply_adds(4, logits=4) == 0


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_a_machine_has_a_speed() -> None:
    rates = MachineSpeed(2).measure(bytes_read=1 << 20, steps=1200)
    assert rates.memory > 0
    assert rates.multiply_adds >= 0


def test_without_a_compiler_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(RuntimeError, match="cannot compile"):
        MachineSpeed(1)

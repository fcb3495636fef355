"""Widths that are no multiple of what the kernels work in: padding changes no value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from maglio import _core
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ModelFileError
from maglio.gguf import ModelFile
from support.gguf_bytes import RawGguf, RawTensor
from support.goldens import log_softmax
from support.models import FAMILIES, TINY, Shape, write_model
from support.reference import Reference
from support.tiny import ISAS, TinyModels, load_on, random_tokens, some_cache

N_TOKENS = 90  # past a border of 64 positions and gemma3's window
FLOAT_LIMIT, QUANTIZED_LIMIT = 2e-6, 2.5e-3  # mean KL, as in test_reference

# n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab, n_ctx, window, tied
SHAPES = {
    "rows of 48": Shape(2, 48, 3, 1, 16, 48, 300, 256, 0, False),
    "rows of 80 and 100": Shape(2, 80, 4, 2, 20, 100, 300, 256, 0, True),
    "rows of 100, heads of 50": Shape(2, 100, 2, 1, 50, 80, 301, 256, 0, True),
    "odd widths": Shape(2, 33, 5, 1, 6, 17, 300, 256, 0, False),
    "more heads than a row": Shape(2, 24, 6, 3, 36, 72, 300, 256, 0, True),
}
OF_ANY_WIDTH = [f for f in FAMILIES if f not in ("olmo2", "lfm2") and not TINY[f].n_expert]
HEADS_OF_20 = Shape(2, 160, 8, 2, 20, 96, 300, 256, 0, False)  # 160 is five blocks of 32


def of_family(shape: Shape, family: str) -> Shape:
    """Give gemma3 and gemma4 layers of both kinds, and a window; qwen35 delta nets."""
    if family == "gemma3":
        return replace(shape, n_layer=7, window=32)
    if family == "gemma4":
        n_head = 2 * shape.n_head  # half as wide where there is a window
        return replace(shape, n_layer=6, n_head=n_head, window=32, n_per_layer=32, n_shared=3)
    if family == "qwen35":
        return replace(shape, n_layer=3, n_key_head=1, n_value_head=2, state_dim=16, n_taps=4)
    return shape


def mean_kl(engine: NativeEngine, path: Path) -> float:
    tokens = random_tokens(engine.n_vocab, N_TOKENS, 1)
    ours = log_softmax(Session(engine).forward(tokens))
    theirs = log_softmax(Reference(path).logits(tokens))
    return float((np.exp(theirs) * (theirs - ours)).sum(axis=1).mean())


@pytest.mark.parametrize("family", OF_ANY_WIDTH)
@pytest.mark.parametrize("fmt", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_any_width_of_float_rows_is_computed(
    tiny: TinyModels, family: str, fmt: str, shape: Shape
) -> None:
    shape = of_family(shape, family)
    engine = tiny.engine(family, fmt, shape=shape)
    assert mean_kl(engine, tiny.path(family, fmt, shape)) < FLOAT_LIMIT


@pytest.mark.parametrize("fmt", ["Q4_0", "Q5_1", "Q8_0"])
@pytest.mark.parametrize("family", OF_ANY_WIDTH)
def test_heads_of_any_width_go_with_quantized_weights(
    tiny: TinyModels, family: str, fmt: str
) -> None:
    shape = of_family(HEADS_OF_20, family)
    engine = tiny.engine(family, fmt, shape=shape)
    assert mean_kl(engine, tiny.path(family, fmt, shape)) < QUANTIZED_LIMIT


@pytest.mark.parametrize(
    ("family", "shape", "says"),
    [
        ("olmo2", HEADS_OF_20, "heads of 20 values"),
        ("lfm2", replace(TINY["lfm2"], n_embd=40), "channels of a convolution is 40"),
        ("qwen3moe", replace(TINY["qwen3moe"], n_embd=48), "the embedding length, with experts,"),
        ("qwen3moe", replace(TINY["qwen3moe"], n_ff=80), "the feed-forward length of an expert"),
    ],
)
def test_widths_that_a_family_cannot_have_are_refused(
    tiny: TinyModels, family: str, shape: Shape, says: str
) -> None:
    with pytest.raises(ModelFileError, match=says):
        tiny.engine(family, "F32", shape=shape)


def mixed(name: str) -> str:
    return "F16" if "ffn_down" in name else "Q8_0"


def test_a_float_matrix_of_odd_rows_goes_with_quantized_ones(tmp_path: Path) -> None:
    shape = Shape(2, 96, 3, 1, 32, 100, 300, 256, 0, False)
    path = tmp_path / "mixed.gguf"
    write_model(path, "llama", shape, mixed, 1)
    assert mean_kl(NativeEngine(ModelFile(path), threads=1), path) < QUANTIZED_LIMIT


@pytest.mark.parametrize("family", OF_ANY_WIDTH)
@pytest.mark.parametrize("fmt", ["F32", "F16", "Q8_0"])
def test_odd_widths_keep_the_row_law(tiny: TinyModels, family: str, fmt: str) -> None:
    shape = HEADS_OF_20 if fmt == "Q8_0" else SHAPES["more heads than a row"]
    shape = of_family(shape, family)
    tokens = random_tokens(300, 80)
    cache = some_cache(fmt)
    one = Session(tiny.engine(family, fmt, shape=shape, kv_cache=cache))
    rows = np.concatenate([one.forward([token]) for token in tokens])
    for isa in ISAS:
        engine = load_on(isa, tiny.path(family, fmt, shape), threads=2, kv_cache=cache)
        session = Session(engine)
        cut = np.concatenate([session.forward(tokens[:37]), session.forward(tokens[37:])])
        np.testing.assert_array_equal(cut, rows)


def test_what_a_forward_leaves_in_the_padding_reaches_no_other(tiny: TinyModels) -> None:
    shape = SHAPES["odd widths"]
    engine = tiny.engine("qwen2", "F32", shape=shape)
    expected = Session(engine).forward([5, 6, 7])
    for token in range(0, 300, 60):
        Session(engine).forward(list(range(token, token + 60)))
    np.testing.assert_array_equal(Session(engine).forward([5, 6, 7]), expected)


def widened(raw: RawGguf, name: str, rows: int, cols: int) -> None:
    """Add zero rows and columns to a matrix of floats."""
    tensor = raw.tensors[name.encode()]
    old_cols, old_rows = tensor.dims
    wide = np.zeros((rows, cols), "<f4")
    wide[:old_rows, :old_cols] = np.frombuffer(tensor.data, "<f4").reshape(old_rows, old_cols)
    raw.tensors[name.encode()] = RawTensor([cols, rows], tensor.kind, wide.tobytes())


def test_padding_gives_the_bits_of_a_file_padded_with_zeros(
    tiny: TinyModels, tmp_path: Path
) -> None:
    shape = Shape(2, 96, 3, 1, 32, 100, 300, 256, 0, False)
    raw = RawGguf.read(tiny.path("llama", "F32", shape))
    for layer in range(2):
        widened(raw, f"blk.{layer}.ffn_gate.weight", 128, 96)
        widened(raw, f"blk.{layer}.ffn_up.weight", 128, 96)
        widened(raw, f"blk.{layer}.ffn_down.weight", 96, 128)
    raw.set("llama.feed_forward_length", 128)
    path = tmp_path / "padded.gguf"
    path.write_bytes(raw.to_bytes())
    tokens = random_tokens(300, 40)
    expected = Session(NativeEngine(ModelFile(path), threads=1)).forward(tokens)
    rows = Session(tiny.engine("llama", "F32", shape=shape)).forward(tokens)
    np.testing.assert_array_equal(rows, expected)


def test_matrices_have_the_columns_of_the_file(tiny: TinyModels) -> None:
    shape = SHAPES["odd widths"]
    path = tiny.path("llama", "F16", shape)
    matrix = _core.read_matrix(ModelFile(path).header, "blk.0.ffn_down.weight")
    assert (matrix.rows, matrix.cols) == (33, 17)
    assert matrix.row(0).shape == (17,)


@pytest.mark.parametrize("head_dim", [16, 32, 36])
def test_rotation_factors_of_small_heads_are_read(
    tiny: TinyModels, tmp_path: Path, head_dim: int
) -> None:
    shape = Shape(2, 96, 3, 1, head_dim, 96, 300, 256, 0, False)
    raw = RawGguf.read(tiny.path("llama", "F32", shape))
    path = tmp_path / "model.gguf"
    tokens = random_tokens(300, 40)

    def rows(factor: float) -> np.ndarray:
        factors = np.full(head_dim // 2, factor, "<f4")
        raw.tensors[b"rope_freqs.weight"] = RawTensor([head_dim // 2], 0, factors.tobytes())
        path.write_bytes(raw.to_bytes())
        return Session(NativeEngine(ModelFile(path), threads=1)).forward(tokens)

    plain = rows(1.0)
    stretched = rows(4.0)
    del raw.tensors[b"rope_freqs.weight"]
    raw.set("llama.rope.scaling.factor", 4.0)
    path.write_bytes(raw.to_bytes())
    scaled = Session(NativeEngine(ModelFile(path), threads=1)).forward(tokens)
    np.testing.assert_array_equal(stretched, scaled)
    assert (plain != scaled).any()


@pytest.mark.parametrize("family", OF_ANY_WIDTH)
def test_trailing_dimensions_of_one_say_nothing(
    tiny: TinyModels, tmp_path: Path, family: str
) -> None:
    raw = RawGguf.read(tiny.path(family, "F32"))
    expected = Session(tiny.engine(family, "F32")).forward([1, 2, 3])
    for tensor in raw.tensors.values():
        tensor.dims += [1] * (4 - len(tensor.dims))
    path = tmp_path / "model.gguf"
    path.write_bytes(raw.to_bytes())
    engine = NativeEngine(ModelFile(path), threads=1)
    np.testing.assert_array_equal(Session(engine).forward([1, 2, 3]), expected)

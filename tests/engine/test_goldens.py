"""Guards the goldens and the random models: what an engine is judged by must itself be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support import goldens
from support.models import K_FORMATS, MODELS, TINY, tiny_shape, write_model
from support.reference import Reference, causal_mask


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the golden qwen3-q4_k."""
    path = tmp_path_factory.mktemp("golden") / "qwen3-q4_k.gguf"
    digest = goldens.write_golden_model("qwen3-q4_k", path)
    assert digest == goldens.load_golden("qwen3-q4_k").digest
    return path


def test_the_reference_meets_the_limits_of_a_golden(qwen3: Path) -> None:
    golden = goldens.load_golden("qwen3-q4_k")
    rows = Reference(qwen3, dtype=np.float32).logits(golden.tokens.tolist())
    agreement = goldens.compare(golden, rows)
    assert agreement.top1 >= 0.98
    assert agreement.kl < 0.001
    assert agreement.perplexity_ratio == pytest.approx(1.0, abs=0.005)


def test_a_wrong_rope_base_fails_a_golden(qwen3: Path) -> None:
    golden = goldens.load_golden("qwen3-q4_k")
    reference = Reference(qwen3, dtype=np.float32)
    reference.rope_base /= 2
    agreement = goldens.compare(golden, reference.logits(golden.tokens.tolist()))
    assert agreement.top1 < 0.97
    assert agreement.kl > 0.01
    assert abs(agreement.perplexity_ratio - 1.0) > 0.005


@pytest.mark.parametrize("name", [*goldens.RANDOM_MODELS, *goldens.REAL_MODELS])
def test_a_golden_is_a_distribution_per_position(name: str) -> None:
    golden = goldens.load_golden(name)
    n = len(golden.tokens) - golden.first
    assert golden.ids.shape == golden.logprobs.shape == (n, goldens.TOP)
    assert golden.next_logprobs.shape == (n - 1,)
    assert (np.exp(golden.logprobs.astype(np.float64)).sum(axis=1) < 1.001).all()
    assert (np.diff(golden.logprobs, axis=1) <= 0).all()


def test_rows_that_do_not_fit_a_golden_are_refused() -> None:
    golden = goldens.load_golden("smollm2-135m")
    with pytest.raises(ValueError, match="3 rows"):
        goldens.compare(golden, np.zeros((3, 49152), dtype=np.float32))


@pytest.mark.parametrize(("family", "fmt"), MODELS)
def test_a_random_model_has_sane_logits_in_every_format(
    family: str, fmt: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    shape = tiny_shape(family, fmt)
    write_model(path, family, shape, fmt, seed=3)
    tokens = np.random.default_rng(3).integers(0, shape.n_vocab, 48).tolist()
    rows = Reference(path).logits(tokens)
    assert rows.shape == (48, shape.n_vocab)
    assert 2 < rows.std(axis=1).mean() < 4
    assert len(set(rows.argmax(axis=1).tolist())) >= 4
    other = Reference(path).logits([*reversed(tokens[:-1]), tokens[-1]])[-1]
    assert np.abs(rows[-1] - other).max() > 0.05, "the last row does not depend on the context"


def test_a_seed_names_one_model(tmp_path: Path) -> None:
    def digest(seed: int) -> str:
        return write_model(tmp_path / "model.gguf", "llama", TINY["llama"], "Q4_0", seed)

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_formats_may_differ_by_tensor(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shape = tiny_shape("gemma3", K_FORMATS[0])
    write_model(path, "gemma3", shape, lambda name: "Q6_K" if "ffn_down" in name else "Q4_K")
    kinds = {name: tensor.tensor_type.name for name, tensor in Reference(path).tensors.items()}
    assert kinds["blk.0.ffn_down.weight"] == "Q6_K"
    assert kinds["blk.0.ffn_up.weight"] == "Q4_K"
    assert kinds["blk.0.attn_norm.weight"] == "F32"


def test_rows_that_do_not_divide_into_blocks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="token_embd"):
        write_model(tmp_path / "model.gguf", "llama", TINY["llama"], "Q4_K")


def test_a_window_counts_the_query_itself() -> None:
    assert causal_mask(4, 2).tolist() == [
        [False, True, True, True],
        [False, False, True, True],
        [True, False, False, True],
        [True, True, False, False],
    ]

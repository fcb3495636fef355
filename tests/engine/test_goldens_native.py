"""The engine predicts what llama.cpp predicts for the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from support import goldens
from support.real_models import real_model_path

LIMIT_OF_RANDOM_MODELS = 0.001
LIMIT_OF_REAL_MODELS = 0.01


def agreement(name: str, path: Path, kv_cache: str = "f16") -> goldens.Agreement:
    golden = goldens.load_golden(name)
    engine = NativeEngine(ModelFile(path), n_ctx=len(golden.tokens), kv_cache=kv_cache)
    session = Session(engine)
    if golden.first:
        session.prefill(golden.tokens[: golden.first])
    return goldens.compare(golden, session.forward(golden.tokens[golden.first :]))


def check(measured: goldens.Agreement, kl_limit: float) -> None:
    assert measured.top1 >= 0.97
    assert measured.kl < kl_limit
    assert measured.perplexity_ratio == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize("name", goldens.RANDOM_MODELS)
def test_a_random_model_of_real_layers_agrees_with_llama_cpp(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    assert goldens.write_golden_model(name, path) == goldens.load_golden(name).digest
    check(agreement(name, path), LIMIT_OF_RANDOM_MODELS)


@pytest.mark.parametrize("name", goldens.REAL_MODELS)
def test_a_real_model_agrees_with_llama_cpp_on_real_text(name: str) -> None:
    path = real_model_path(name)
    if goldens.file_digest(path) != goldens.load_golden(name).digest:
        pytest.skip(f"{path} is another release than the golden's")
    check(agreement(name, path), LIMIT_OF_REAL_MODELS)


@pytest.mark.parametrize("name", goldens.REAL_MODELS)
def test_a_cache_in_8_bits_keeps_a_real_model_near_llama_cpp(name: str) -> None:
    path = real_model_path(name)
    if goldens.file_digest(path) != goldens.load_golden(name).digest:
        pytest.skip(f"{path} is another release than the golden's")
    measured = agreement(name, path, kv_cache="q8_0")
    assert measured.top1 >= 0.97
    assert measured.kl < LIMIT_OF_REAL_MODELS

"""How exact models of the transformers library are found to be, and what the guard makes of it."""

from __future__ import annotations

import json
import sys

import pytest
import torch

import maglio
from maglio.cli.app import main
from maglio.economics.cost import FLAT_COST
from maglio.errors import ExactnessError

FAMILIES = ("llama", "qwen3", "gemma3", "gemma4", "qwen3.5")
TOKENS = [(7 + index * 79) % 280 for index in range(24)]
HOW = maglio.Speculation(gate=False, history=False, cost=FLAT_COST)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_found_decides_what_may_be_required(checkpoints, family):
    folder = checkpoints.folder(family, torch.bfloat16)
    model = maglio.load(folder, n_ctx=128)
    assert model.promised == "distribution"
    assert model.engine.exactness == model.checked.exactness
    assert len(model.checked.trials) == 3
    assert not any(trial.error for trial in model.checked.trials)
    if model.checked.exactness == "bitwise":
        assert maglio.load(folder, n_ctx=128, exact="require").checked == model.checked
    else:
        assert model.checked.drift > 0.0
        with pytest.raises(ExactnessError, match="dtype='float32'"):
            maglio.load(folder, n_ctx=128, exact="require")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_guarded_stream_is_that_of_plain_decoding(checkpoints, dtype, temperature):
    model = maglio.load(checkpoints.folder("llama", dtype), n_ctx=128, exact="guard")
    sampling = maglio.SamplingParams(temperature=temperature, seed=5)
    plain = model.generate(TOKENS, max_tokens=40, sampling=sampling, speculation=False)
    fast = model.generate(
        TOKENS,
        max_tokens=40,
        sampling=sampling,
        speculation=HOW,
        references=[[*TOKENS, *plain.tokens]],
    )
    assert fast.tokens == plain.tokens
    assert fast.stats.drafted > 0


def test_a_model_that_cannot_go_back_has_no_guard_and_needs_none(checkpoints):
    model = maglio.load(checkpoints.folder("qwen3.5"), n_ctx=128, exact="guard")
    out = model.generate(TOKENS, max_tokens=20)
    assert out.stats.recomputed == out.stats.drafted == 0


def test_the_commands_run_checkpoints(checkpoints, monkeypatch, capsys):
    folder = str(checkpoints.folder("llama"))
    options = ["--engine", "transformers", "--engine-option", "dtype=float64", "-c", "128"]
    words = ["generate", "-m", folder, "-p", "an ant", "-n", "8", "--json", "--stats", *options]
    monkeypatch.setattr(sys, "argv", ["maglio", *words, "--exact", "guard"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["engine"]["name"] == "transformers"
    assert "engine transformers, " in said.err

"""What comes out of a generation, and what goes in, can be sent to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

import maglio
from maglio.chat.turn import Turn
from maglio.decode import GenerationStats
from maglio.errors import ContextFullError
from support.models import TINY, write_model


@pytest.fixture(scope="module")
def generation(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, "llama", TINY["llama"], "Q4_0")
    return maglio.load(path, n_ctx=256, threads=1).generate([1, 2, 1, 2], max_tokens=30)


VALUES = {
    "generation": lambda generation: generation,
    "statistics": lambda generation: generation.stats,
    "token": lambda _: maglio.TextToken(1, "a", "reference:0"),
    "turn": lambda generation: Turn("hi", "he", (1, 2), "stop", generation.stats),
    "sampling": lambda _: maglio.SamplingParams(temperature=0.5, logit_bias={3: 1.0, 2: -2.0}),
    "speculation": lambda _: maglio.Speculation(source="record", history="a name"),
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_value_is_the_same_value(generation, make, protocol):
    value = make(generation)
    assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert copy.deepcopy(value) == value


def test_the_sources_of_the_statistics_come_along(generation):
    stats: GenerationStats = pickle.loads(pickle.dumps(generation)).stats
    assert stats.sources["conversation"] == generation.stats.sources["conversation"]


def test_a_failed_generation_says_why_in_another_process():
    failed = maglio.Generation.failed(ContextFullError("the prompt is too long"))
    error = pickle.loads(pickle.dumps(failed)).error
    assert isinstance(error, ContextFullError)
    assert str(error) == "the prompt is too long"

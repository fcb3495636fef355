"""The library's front door, on a tiny model with a real vocabulary."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import maglio
from maglio import machine
from maglio.engine.native import NativeEngine
from maglio.gguf import ModelFile
from support.real_models import real_model_path


@pytest.fixture(scope="module")
def model() -> maglio.Model:
    return maglio.load(real_model_path("smollm2-135m"), n_ctx=256, threads=1)


PROMPT = "One two three, one two three, one two"


def test_a_stream_is_the_generation_piece_by_piece(model):
    whole = model.generate(PROMPT, max_tokens=20)
    stream = model.stream(PROMPT, max_tokens=20, speculation=maglio.Speculation(history=False))
    tokens = list(stream)
    assert tuple(token.id for token in tokens) == whole.tokens == stream.tokens
    assert "".join(token.text for token in tokens) == whole.text == stream.text
    assert stream.finish_reason == whole.finish_reason == "length"
    assert {token.source for token in tokens} >= {"model", "conversation"}


def test_text_and_its_ids_are_the_same_prompt(model):
    ids = model.tokenizer.encode(PROMPT)
    assert model.generate(ids, max_tokens=8).tokens == model.generate(PROMPT, max_tokens=8).tokens


def test_a_prompt_that_spells_a_control_token_is_text(model):
    spelled = model.generate("<|im_end|>", max_tokens=1).stats.prompt_tokens
    assert spelled > 1
    (end,) = model.tokenizer.encode("<|im_end|>", parse_special=True)
    assert end in model.tokenizer.eog_ids


def test_statistics_add_up(model):
    stats = model.generate(PROMPT, max_tokens=40).stats
    assert stats.committed == 40
    assert stats.committed == stats.steps + stats.accepted
    assert stats.drafted == sum(counts.drafted for counts in stats.sources.values())
    assert stats.accepted == sum(counts.accepted for counts in stats.sources.values())
    assert stats.acceptance_rate == stats.accepted / stats.drafted
    assert stats.tokens_per_step == stats.committed / stats.steps


@pytest.mark.parametrize("speculation", [True, False])
def test_a_stop_string_ends_the_text_before_it(model, speculation):
    whole = model.generate(PROMPT, max_tokens=40, speculation=speculation)
    stop = whole.text[9:16]
    out = model.generate(PROMPT, max_tokens=40, stop=[stop], speculation=speculation)
    assert out.finish_reason == "stop"
    assert out.text == whole.text[: whole.text.index(stop)]
    assert out.tokens == whole.tokens[: len(out.tokens)]


def test_a_stop_token_is_the_last_one(model):
    whole = model.generate(PROMPT, max_tokens=12)
    out = model.generate(PROMPT, max_tokens=12, stop_tokens=[whole.tokens[4]])
    assert out.finish_reason == "stop"
    assert out.tokens == whole.tokens[: whole.tokens.index(whole.tokens[4]) + 1]


def test_the_context_ends_a_generation(model):
    ids = model.tokenizer.encode("word " * 300)[:250]
    out = model.generate(ids, max_tokens=100)
    assert out.finish_reason == "length"
    # The last token is sampled from the last row, and needs no place itself.
    assert len(out.tokens) == 256 - 250 + 1
    assert out.tokens == model.generate(ids, max_tokens=100, speculation=False).tokens


def test_closing_a_stream_keeps_what_was_generated(model):
    stream = model.stream(PROMPT, max_tokens=40)
    for _, _token in zip(range(5), stream, strict=False):
        pass
    stream.close()
    assert len(stream.tokens) == 5
    assert stream.text == model.tokenizer.decode(stream.tokens, continues=True)
    assert stream.finish_reason is None


def test_sampling_depends_on_the_seed_alone(model):
    def run(seed: int, speculation: bool) -> tuple[int, ...]:
        sampling = maglio.SamplingParams(temperature=1.0, seed=seed)
        return model.generate(
            PROMPT, max_tokens=24, sampling=sampling, speculation=speculation
        ).tokens

    assert run(1, True) == run(1, False) == run(1, True)
    assert run(1, True) != run(2, True)


def test_a_session_takes_token_ids_and_gives_rows(model):
    session = model.session()
    row = session.prefill(model.tokenizer.encode("Hello"))
    assert row.shape == (model.engine.n_vocab,)
    assert row.dtype == np.float32
    length = session.length
    rows = session.forward([11, 12, 13])
    assert rows.shape == (3, model.engine.n_vocab)
    session.truncate(length + 1)
    assert session.length == length + 1
    again = session.forward([12, 13])
    assert np.array_equal(again, rows[1:])


def test_rows_of_an_earlier_forward_stay_as_they_are(model):
    session = model.session()
    first = session.forward([11, 12])
    kept = first.copy()
    for token in range(20, 30):
        session.forward([token, token + 1])
    assert np.array_equal(first, kept)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"prompt": ""}, "empty"),
        ({"prompt": []}, "empty"),
        ({"prompt": [10**6]}, "1000000"),
        ({"prompt": [-1]}, "-1"),
        ({"prompt": [1.5]}, "1.5"),
        ({"prompt": "x", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "x", "stop": [""]}, "stop"),
        ({"prompt": "x", "stop_tokens": [-5]}, "stop_tokens"),
        ({"prompt": "x", "speculation": "yes"}, "speculation"),
    ],
)
def test_a_bad_argument_is_named(model, arguments, says):
    with pytest.raises(maglio.InvalidArgumentError, match=says):
        model.generate(**arguments)


def test_an_unknown_option_is_refused(model):
    with pytest.raises(TypeError, match="temprature"):
        model.generate("x", temprature=0.5)


def test_a_prompt_longer_than_the_context_says_both_numbers(model):
    with pytest.raises(maglio.ContextFullError, match=r"300.*256"):
        model.generate([5] * 300)
    with pytest.raises(maglio.ContextFullError, match="n_ctx"):
        model.session().forward([5] * 300)


def test_a_text_that_is_sure_not_to_fit_is_refused_without_being_encoded(model, monkeypatch):
    text = "a quick word " * 100_000
    fewest = model.tokenizer.fewest_tokens(text)
    monkeypatch.setattr(type(model.tokenizer), "encode", None)
    with pytest.raises(maglio.ContextFullError, match=rf"at least {fewest:,} tokens.* of 256"):
        model.generate(text)
    [failed] = model.generate_many([text])
    assert isinstance(failed.error, maglio.ContextFullError)


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [0.5],
        [[1, 2]],
        [49152],
        [-1],
        [*range(150), 49152],
        [*range(150), -1],
        np.array([1, 49152]),
        np.array([-1, 1]),
    ],
    ids=str,
)
def test_a_session_refuses_what_is_no_token_sequence(model, tokens):
    session = model.session()
    with pytest.raises(maglio.InvalidArgumentError):
        session.forward(tokens)
    assert session.length == 0


def test_a_session_cannot_be_cut_to_a_length_it_never_had(model):
    session = model.session()
    session.prefill([1, 2, 3])
    for length in (-1, 4):
        with pytest.raises(maglio.InvalidArgumentError, match="length"):
            session.truncate(length)


def test_a_temperature_must_be_a_number():
    with pytest.raises(maglio.InvalidArgumentError, match="temperature"):
        maglio.SamplingParams(temperature=math.nan)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "gpu"}, "engine"),
        ({"kv_cache": "q3"}, "kv_cache is 'q3', must be f16 or q8_0"),
        ({"kv_cache": ["f16"]}, "kv_cache"),
        ({"n_ctx": 0}, "n_ctx"),
        ({"threads": 0}, "threads"),
        ({"threads": 10**6}, "threads"),
    ],
)
def test_a_bad_load_option_is_named(options, says):
    with pytest.raises(maglio.InvalidArgumentError, match=says):
        maglio.load(real_model_path("smollm2-135m"), **options)


def test_a_missing_file_is_named():
    with pytest.raises(maglio.ModelFileError, match=r"nowhere\.gguf"):
        maglio.load("nowhere.gguf")


def test_weights_beyond_memory_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(maglio.OutOfMemoryError, match="smaller"):
        NativeEngine(ModelFile(tiny.path("llama", "F32", None)))


def test_an_unknown_instruction_set_is_refused(tiny, monkeypatch):
    monkeypatch.setenv("MAGLIO_ISA", "mmx")
    with pytest.raises(maglio.InvalidArgumentError, match=r"mmx.*portable"):
        NativeEngine(ModelFile(tiny.path("llama", "F32", None)))


def test_end_tokens_can_be_forbidden_and_are_not_penalised(model):
    ends = maglio.SamplingParams(logit_bias=dict.fromkeys(model.tokenizer.eog_ids, 99.0))
    assert model.generate(PROMPT, sampling=ends).finish_reason == "stop"
    never = dataclasses.replace(ends, ignore_eos=True)
    assert model.generate(PROMPT, max_tokens=5, sampling=never).finish_reason == "length"
    prompt = [*model.tokenizer.eog_ids, *model.tokenizer.encode(PROMPT)]
    penalised = dataclasses.replace(ends, repeat_penalty=1e6)
    assert model.generate(prompt, sampling=penalised).finish_reason == "stop"

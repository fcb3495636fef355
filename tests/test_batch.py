"""Many prompts at once: each generation is the one it is alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import maglio
from maglio.batch import common_beginning
from maglio.draft.source import Draft, DraftSource
from maglio.errors import ContextFullError, InvalidArgumentError, OutOfMemoryError
from support.chat_model import chat_model
from support.models import FAMILIES, TINY, write_model
from support.tiny import random_tokens

GREEDY = maglio.SamplingParams()
SAMPLED = maglio.SamplingParams(
    temperature=0.9, top_k=40, top_p=0.95, min_p=0.02, repeat_penalty=1.2, seed=3
)
QUIET = maglio.Speculation(history=False, gate=False)
RECORD = maglio.Speculation(source="record", gate=False)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory) -> maglio.Model:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, request.param, TINY[request.param], "Q4_0")
    return maglio.load(path, n_ctx=256, threads=2)


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> maglio.Model:
    return chat_model(tmp_path_factory.mktemp("models"))


def prompts_of(model: maglio.Model) -> list[list[int]]:
    """Short and long ones, some that repeat themselves, some with a common beginning."""
    n_vocab = model.engine.n_vocab
    shared = random_tokens(n_vocab, 70, 1)
    return [
        [5, 9, 5, 9, 7, 5, 9],
        *(shared + random_tokens(n_vocab, 5, seed) for seed in range(4)),
        random_tokens(n_vocab, 130, 9),
        [3],
    ]


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(
    "speculation", [False, True, QUIET, RECORD], ids=["off", "on", "quiet", "record"]
)
def test_every_generation_is_what_it_is_alone(model, sampling, speculation):
    prompts = prompts_of(model)
    alone = [
        model.generate(prompt, max_tokens=24, sampling=sampling, speculation=False)
        for prompt in prompts
    ]
    for max_parallel in (1, 3, 16):
        many = model.generate_many(
            prompts,
            max_parallel=max_parallel,
            max_tokens=24,
            sampling=sampling,
            speculation=speculation,
        )
        assert [m.tokens for m in many] == [a.tokens for a in alone]
        assert [m.finish_reason for m in many] == [a.finish_reason for a in alone]
        assert all(m.error is None for m in many)


def test_a_common_beginning_is_computed_once(model):
    n_vocab = model.engine.n_vocab
    shared = random_tokens(n_vocab, 100, 1)
    prompts = [shared + random_tokens(n_vocab, 5, seed) for seed in range(6)]
    alone = [model.generate(p, max_tokens=10, speculation=False).tokens for p in prompts]
    many = model.generate_many(prompts, max_tokens=10, speculation=QUIET)
    assert [m.tokens for m in many] == alone
    assert [m.stats.prompt_tokens for m in many] == [5] * 6


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        ([], 0),
        ([range(50)], 0),
        ([range(50), range(50)], 49),
        ([range(50), range(20)], 19),
        ([range(50), [*range(30), 7], [*range(40), 9]], 30),
        ([range(50), range(10)], 0),  # too few to be worth it
        ([range(1, 50), range(50)], 0),
    ],
)
def test_the_common_beginning_leaves_every_prompt_a_token(prompts, shared):
    assert common_beginning([list(prompt) for prompt in prompts]) == list(range(shared))


def test_texts_and_stop_strings_are_as_they_are_alone(texts):
    prompts = ["the quick brown fox", "on and on", "hello", "é\n"]
    whole = [texts.generate(p, max_tokens=40, speculation=False).text for p in prompts]
    stop = [text[len(text) // 2 :][:2] for text in whole if len(text) > 4]
    alone = [texts.generate(p, max_tokens=40, stop=stop, speculation=False) for p in prompts]
    many = texts.generate_many(prompts, max_tokens=40, stop=stop)
    assert [(m.text, m.tokens, m.finish_reason) for m in many] == [
        (a.text, a.tokens, a.finish_reason) for a in alone
    ]
    assert "stop" in {m.finish_reason for m in many}


def test_they_come_as_they_end_when_asked_for(texts):
    prompts = ["a", "b" * 100, "c"]
    sampling = maglio.SamplingParams(logit_bias={298: -99.0})
    seen = []
    for number, generation in texts.generate_many(
        prompts,
        max_parallel=2,
        max_tokens=9,
        sampling=sampling,
        speculation=False,
        as_completed=True,
    ):
        seen.append(number)
        assert len(generation.tokens) == 9
    assert sorted(seen) == [0, 1, 2]
    assert seen[0] == 0


def test_every_prompt_can_have_its_own_sampling(texts):
    sampling = [maglio.SamplingParams(temperature=1.0, seed=seed) for seed in range(3)]
    many = texts.generate_many(["hi"] * 3, max_tokens=12, sampling=sampling)
    alone = [texts.generate("hi", max_tokens=12, sampling=each).tokens for each in sampling]
    assert [m.tokens for m in many] == alone
    assert len(set(alone)) == 3
    with pytest.raises(InvalidArgumentError, match="one for each of the 2"):
        texts.generate_many(["a", "b"], sampling=sampling)


def test_progress_is_told_and_a_raising_callback_ends_nothing(texts):
    told = []

    def progress(done, total):
        told.append((done, total))
        if done == 2:
            raise LookupError

    with pytest.warns(RuntimeWarning, match="progress callback raised LookupError"):
        many = texts.generate_many(["a", "b", "c"], max_tokens=3, progress=progress)
    assert told == [(1, 3), (2, 3)]
    assert all(len(m.tokens) == 3 for m in many)


def test_a_prompt_that_cannot_work_fails_alone(texts):
    prompts = ["the quick", "", [10**6], "x" * 300, "on and on"]
    many = texts.generate_many(prompts, max_tokens=5)
    kinds = [type(m.error) for m in many]
    assert kinds == [
        type(None),
        InvalidArgumentError,
        InvalidArgumentError,
        ContextFullError,
        type(None),
    ]
    for number in (0, 4):
        assert many[number].tokens == texts.generate(prompts[number], max_tokens=5).tokens
    for number in (1, 2, 3):
        assert (many[number].tokens, many[number].finish_reason) == ((), None)


def test_a_source_that_raises_changes_no_stream(model):
    class Raising(DraftSource):
        def __init__(self, at):
            self.left = at

        def propose(self, stream, limit):
            self.left -= 1
            if self.left < 0:
                raise OSError("gone")
            return Draft([7] * limit)

        def observe(self, step):
            pass

    numbers = iter(range(100))
    how = maglio.Speculation(source=lambda setting: Raising(next(numbers) % 5), gate=False)
    prompts = prompts_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        many = model.generate_many(prompts, max_tokens=16, speculation=how)
    alone = [model.generate(p, max_tokens=16, speculation=False).tokens for p in prompts]
    assert [m.tokens for m in many] == alone


def test_a_stream_without_memory_waits_or_fails_and_the_others_finish(model, monkeypatch):
    prompts = prompts_of(model)
    alone = [model.generate(p, max_tokens=16, speculation=False).tokens for p in prompts]
    forward = model.engine.forward
    calls = []

    def scarce(batch):
        calls.append(len(batch))
        if len(batch) > 2 or any(len(segment.tokens) > 60 for segment in batch):
            raise OutOfMemoryError("no pages")
        return forward(batch)

    monkeypatch.setattr(model.engine, "forward", scarce)
    many = model.generate_many(prompts, max_tokens=16, speculation=QUIET)
    failed = [n for n, m in enumerate(many) if m.error is not None]
    assert all(isinstance(many[n].error, OutOfMemoryError) for n in failed)
    assert len(failed) < len(prompts)
    for number, tokens in enumerate(alone):
        if number not in failed:
            assert many[number].tokens == tokens
    assert max(calls) > 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"max_parallel": 0}, "max_parallel"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"stop": [""]}, "stop"),
        ({"stop_tokens": [-5]}, "stop_tokens"),
        ({"sampling": "x"}, "sampling"),
        ({"speculation": "x"}, "speculation"),
        ({"references": 7}, "references"),
    ],
)
def test_what_can_never_work_is_refused_at_once(texts, arguments, says):
    with pytest.raises(InvalidArgumentError, match=says):
        texts.generate_many(["a"], **arguments)


def test_a_source_of_ones_own_is_given_as_a_function(texts):
    class Own(DraftSource):
        def propose(self, stream, limit):
            return None

        def observe(self, step):
            pass

    with pytest.raises(InvalidArgumentError, match="function that makes one"):
        texts.generate_many(["a"], speculation=maglio.Speculation(source=Own()))
    how = maglio.Speculation(source=lambda setting: Own())
    assert len(texts.generate_many(["a"], max_tokens=3, speculation=how)[0].tokens) == 3


def test_no_prompts_give_no_generations(texts):
    assert texts.generate_many([]) == []


def test_an_iterator_that_is_left_gives_its_memory_back(texts):
    iterator = texts.generate_many(["a", "b", "c"], max_tokens=50, as_completed=True)
    next(iterator)
    iterator.close()
    assert len(texts.generate("a", max_tokens=3).tokens) == 3


def test_streams_of_a_batch_are_remembered(texts):
    before = len(texts.history("batch"))
    how = maglio.Speculation(history="batch")
    many = texts.generate_many(["hello there", "on and on"], max_tokens=8, speculation=how)
    n_prompt = sum(len(texts.tokenizer.encode(p)) for p in ("hello there", "on and on"))
    assert len(texts.history("batch")) - before == n_prompt + sum(len(m.tokens) for m in many)


@pytest.mark.parametrize("speculation", [False, True])
def test_a_stop_string_that_spells_a_control_token_ends_at_that_token(texts, speculation):
    name = "<|im_start|>"
    token = texts.tokenizer.control_tokens[name]
    sampling = maglio.SamplingParams(logit_bias={token: 99.0})
    out = texts.generate(
        "hi", max_tokens=5, sampling=sampling, stop=[name], speculation=speculation
    )
    assert (out.tokens, out.text, out.finish_reason) == ((token,), "", "stop")
    assert len(texts.generate("hi", max_tokens=5, sampling=sampling).tokens) == 5


def test_a_job_that_found_no_memory_is_tried_again_when_the_others_have_ended(texts, monkeypatch):
    prompts = [[n] * 40 for n in range(1, 7)]
    alone = [texts.generate(p, max_tokens=8, speculation=False).tokens for p in prompts]
    refused = []
    new_cache = texts.engine.new_cache

    def scarce():
        if not refused:
            refused.append(1)
            raise OutOfMemoryError("no pages")
        return new_cache()

    monkeypatch.setattr(texts.engine, "new_cache", scarce)
    many = texts.generate_many(prompts, max_tokens=8, as_completed=True)
    numbers = []
    for number, generation in many:
        numbers.append(number)
        assert generation.error is None
        assert generation.tokens == alone[number]
    assert numbers[-1] == 0
    assert refused


@pytest.mark.parametrize("error", [KeyError, OSError, MemoryError])
def test_a_source_that_cannot_be_made_fails_its_own_generation(texts, error):
    made = []

    def make(setting):
        made.append(setting)
        if len(made) == 3:  # the first is made to see that it can be
            raise error("gone")
        return Silent()

    how = maglio.Speculation(source=make)
    many = texts.generate_many(["a", "b", "c"], max_tokens=3, speculation=how, max_parallel=1)
    assert [generation.error is None for generation in many] == [True, False, True]
    assert many[0].tokens == texts.generate("a", max_tokens=3).tokens


class Silent(DraftSource):
    def propose(self, stream, limit):
        return None

    def observe(self, step):
        pass


def test_a_text_in_the_place_of_prompts_is_refused(texts):
    with pytest.raises(InvalidArgumentError, match="prompts"):
        texts.generate_many("hello")


@pytest.mark.parametrize(
    "prompt", [["a"], [[1]], np.array([[1]]), np.array(1), 7, None, b"ab", [], [1.5], [-1]]
)
def test_a_prompt_that_is_none_fails_alone(texts, prompt):
    first, second = texts.generate_many([prompt, "hi"], max_tokens=3)
    assert isinstance(first.error, maglio.MaglioError)
    assert second.error is None
    assert len(second.tokens) == 3

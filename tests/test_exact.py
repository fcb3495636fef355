"""How exact a model is, is found and not believed; and what may be asked about it."""

from __future__ import annotations

import math

import pytest

import maglio
from maglio.economics.cost import FLAT_COST
from maglio.engine import registry
from maglio.engine.registry import Opened, UnknownOptionsError
from maglio.errors import ExactnessError, InvalidArgumentError, MaglioError
from maglio.native_model import open_native
from support.chat_model import write_chat_model
from support.drifting_engine import DriftingEngine, EntryPoint, StubbornEngine, drifting

DRIFT = 0.02
PROMPTS = ["an ant", "a river of", "how much", "one two three", "we", "the end of it"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("exact") / "m.gguf")


@pytest.fixture
def load(path, monkeypatch):
    def load(point=None, **options):
        points = [] if point is None else [point]
        monkeypatch.setattr(registry, "entry_points", lambda group: points)
        engine = "native" if point is None else point.name
        return maglio.load(path, engine=engine, threads=1, **{"n_ctx": 256, **options})

    return load


@pytest.mark.parametrize("claim", ["bitwise", "distribution"])
def test_what_is_found_is_what_the_engine_says_from_then_on(load, claim):
    model = load(drifting(DRIFT, claim))
    assert model.engine.exactness == "distribution"
    assert model.promised == claim
    assert DRIFT / 2 < model.checked.drift <= DRIFT
    assert "differed from those computed alone, by 0.0" in str(model.checked)


@pytest.mark.parametrize("claim", ["bitwise", "distribution"])
def test_an_engine_that_says_too_little_is_found_out_too(load, claim):
    model = load(drifting(0.0, claim), exact="require")
    assert model.engine.exactness == "bitwise"
    assert model.promised == claim
    assert model.checked.drift == 0.0
    assert "were, to the bit, those computed alone" in str(model.checked)


def test_the_check_is_quick(load):
    widths = load(drifting(DRIFT)).engine.widths
    assert len(widths) <= 24
    assert sum(widths) <= 100
    assert set(widths) > {1, 2, 3, 7, 12}


def test_the_native_engine_is_not_checked_but_by_the_doctor(load):
    model = load(exact="require")
    assert model.checked is None
    assert model.promised == model.engine.exactness == "bitwise"
    assert load(exact="guard").generate("an ant", max_tokens=20).stats.recomputed == 0


def test_what_is_not_exact_is_refused_where_that_is_required(load):
    with pytest.raises(ExactnessError) as refusal:
        load(drifting(DRIFT), exact="require")
    said = str(refusal.value)
    assert "the engine 'drifting' is not exact here" in said
    assert (
        "27 rows computed with others (12 rows at a time; 2, 3 and 7 rows at a time; beside" in said
    )
    assert "To make it more exact: stop drifting." in said
    assert "exact='guard'" in said


def test_a_context_too_short_to_try_anything_promises_nothing(load):
    model = load(drifting(0.0, "bitwise"), n_ctx=12)
    assert model.checked.trials == ()
    assert model.engine.exactness == "distribution"
    assert model.checked.drift == math.inf
    with pytest.raises(ExactnessError, match="too short to try anything"):
        load(drifting(0.0), n_ctx=12, exact="require")


def test_a_trial_that_fails_promises_nothing(load):
    class Failing(DriftingEngine):
        def forward(self, batch):
            if len(batch) > 1:
                raise MaglioError("one at a time")
            return super().forward(batch)

    def open_failing(path, /, *, n_ctx, threads, kv_cache):
        opened = open_native(path, n_ctx=n_ctx, threads=threads, kv_cache=kv_cache)
        return Opened(Failing(opened.engine, 0.0, "bitwise"), *opened[1:])

    model = load(EntryPoint("failing", open_failing))
    assert model.engine.exactness == "distribution"
    assert str(model.checked) == "it failed beside other streams: one at a time"


def test_a_claim_that_is_wrong_and_cannot_be_corrected_is_an_error(load):
    with pytest.raises(MaglioError, match="says that its rows are bitwise, and they are not"):
        load(drifting(DRIFT, "bitwise", StubbornEngine))


def test_another_wish_is_refused(load):
    with pytest.raises(InvalidArgumentError, match="exact is 'always', must be accept, guard or"):
        load(exact="always")


def test_an_opener_is_told_what_was_asked_if_it_wants_to_know(load):
    told = {}

    def open_asking(path, /, *, n_ctx, threads, kv_cache, exact, on_load=None):
        told.update(exact=exact, on_load=on_load)
        return open_native(path, n_ctx=n_ctx, threads=threads, kv_cache=kv_cache)

    load(EntryPoint("asking", open_asking), exact="guard", on_load=print)
    assert told == {"exact": "guard", "on_load": print}
    load(drifting(0.0), on_load=print)  # which never calls it


def test_all_options_that_an_engine_does_not_have_are_named_at_once(load):
    with pytest.raises(UnknownOptionsError) as refusal:
        load(drifting(0.0), cache=True, layers=3)
    assert str(refusal.value) == (
        "the engine 'drifting' has no option 'layers' and no option 'cache'; it has n_ctx, "
        "threads, kv_cache"
    )


HOW = maglio.Speculation(gate=False, history=False, cost=FLAT_COST)
SAMPLED = maglio.SamplingParams(temperature=0.8, top_k=40, seed=3)


@pytest.mark.parametrize("sampling", [None, SAMPLED], ids=["greedy", "sampled"])
def test_a_guarded_model_gives_what_the_exact_one_gives(load, sampling):
    exact = load()
    plain = [
        exact.generate(prompt, max_tokens=40, sampling=sampling, speculation=False).tokens
        for prompt in PROMPTS
    ]
    counts = {}
    for wish in ("accept", "guard"):
        model = load(drifting(DRIFT), exact=wish)
        outs = [
            model.generate(
                prompt,
                max_tokens=40,
                sampling=sampling,
                speculation=HOW,
                references=[[*model.tokenizer.encode(prompt), *tokens]],
            )
            for prompt, tokens in zip(PROMPTS, plain, strict=True)
        ]
        many = model.generate_many(PROMPTS, max_tokens=40, sampling=sampling)
        counts[wish] = [
            sum(out.tokens == tokens for out, tokens in zip(found, plain, strict=True))
            for found in (outs, many)
        ]
        recomputed = sum(out.stats.recomputed for out in (*outs, *many))
        assert (recomputed > 0) == (wish == "guard")
    assert counts["guard"] == [len(PROMPTS)] * 2
    assert sum(counts["accept"]) < 2 * len(PROMPTS)


def test_a_guarded_conversation_says_what_the_exact_one_says(load):
    def talk(model):
        chat = model.chat(max_tokens=24, speculation=HOW)
        return [chat.send(text).result() for text in PROMPTS[:4]], chat.stats

    answers, _ = talk(load())
    guarded, stats = talk(load(drifting(DRIFT), exact="guard"))
    assert guarded == answers
    assert stats.recomputed > 0

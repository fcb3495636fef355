"""Where a generation ends, what it refuses, what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from maglio.decode import Picker, SourceCounts
from maglio.errors import ContextFullError, InvalidArgumentError
from support.decoder import Decoder
from support.decoding import GREEDY, PROMPT, SAMPLED, ids, plain_run
from support.toy_engine import ToyCache, ToyEngine
from support.toy_sources import ScriptedSource, perfect, spoil

RUN = plain_run(SAMPLED)


@pytest.mark.parametrize("at", range(1, 14))
@pytest.mark.parametrize("by", ["id", "predicate"])
def test_a_stop_inside_a_draft_ends_there(at, by):
    stop = RUN.output[at]
    end = RUN.output.index(stop) + 1
    asked: list[int] = []

    def should_stop(token: int) -> bool:
        asked.append(token)
        return by == "predicate" and token == stop

    decoder = RUN.decoder(perfect(RUN.stream, 5))
    tokens = ids(
        decoder.generate(
            PROMPT,
            max_tokens=60,
            stop_tokens=[stop] if by == "id" else [],
            should_stop=should_stop,
        )
    )
    assert tokens == asked == RUN.output[:end]
    assert decoder.finish_reason == "stop"
    RUN.check(decoder, generated=end)


@pytest.mark.parametrize("n_tokens", range(15))
def test_max_tokens_inside_a_draft_ends_there(n_tokens):
    decoder = RUN.decoder(perfect(RUN.stream, 5))
    assert ids(decoder.generate(PROMPT, max_tokens=n_tokens)) == RUN.output[:n_tokens]
    assert decoder.finish_reason == "length"
    assert decoder.stats.committed == n_tokens
    RUN.check(decoder, generated=n_tokens)


@pytest.mark.parametrize("n_ctx", range(len(PROMPT), len(PROMPT) + 14))
def test_the_context_is_filled_to_the_last_position(n_ctx):
    # ToyEngine refuses to grow beyond n_ctx, so a draft that is too long would fail here.
    run = plain_run(SAMPLED, n_ctx=n_ctx)
    decoder = run.decoder(perfect([*run.stream, *range(9)], 5))
    assert ids(decoder.generate(PROMPT, max_tokens=60)) == run.output
    assert len(decoder.tokens) == n_ctx + 1
    assert decoder.finish_reason == "length"
    run.check(decoder, generated=len(run.output))
    assert ids(decoder.generate((), max_tokens=5)) == []
    assert decoder.finish_reason == "length"
    run.check(decoder, generated=len(run.output))


def test_a_stop_on_the_last_token_is_a_stop():
    decoder = RUN.decoder()
    list(decoder.generate(PROMPT, max_tokens=1, stop_tokens=[RUN.output[0]]))
    assert decoder.finish_reason == "stop"


def test_tokens_say_who_predicted_them():
    def draft(truth: list[int], call: int) -> list[int]:
        return spoil(truth[:3], 2, 60) if call == 0 else truth[:2] if call == 1 else []

    decoder = RUN.decoder(ScriptedSource(RUN.stream, draft))
    sources = [token.source for token in decoder.generate(PROMPT, max_tokens=8)]
    #          prefill, two accepted, correction, two accepted, bonus, plain step
    assert sources == ["model", "draft", "draft", "model", "draft", "draft", "model", "model"]


def test_statistics_count_what_was_judged():
    def draft(truth: list[int], call: int) -> list[int]:
        return spoil(truth[:4], 1, 60) if call == 0 else truth[:6]

    decoder = RUN.decoder(ScriptedSource(RUN.stream, draft))
    list(decoder.generate(PROMPT, max_tokens=60, stop_tokens=[RUN.output[6]]))
    # Prefill 1; a draft of 4 with 1 right: 2 tokens; a draft of 6 ended by a stop after 4.
    stats = decoder.stats
    assert (stats.steps, stats.verify_steps, stats.committed) == (3, 2, 7)
    assert (stats.drafted, stats.accepted) == (8, 5)
    assert stats.acceptance_rate == 5 / 8
    assert stats.tokens_per_step == 7 / 3
    assert stats.sources == {"draft": SourceCounts(8, 5)}
    assert stats.prompt_tokens == len(PROMPT)
    assert 0.0 < stats.overhead_s < stats.decode_s
    assert stats.prefill_s > 0.0
    assert stats.tokens_per_s == 6 / stats.decode_s
    assert stats.prompt_tokens_per_s == len(PROMPT) / stats.prefill_s


def test_statistics_without_a_generation_are_zero():
    stats = RUN.decoder().stats
    assert stats.tokens_per_step == stats.acceptance_rate == stats.tokens_per_s == 0.0
    assert stats.sources == {}


def test_plain_decoding_has_one_token_per_step():
    decoder = RUN.decoder()
    assert ids(decoder.generate(PROMPT, max_tokens=60)) == RUN.output
    assert decoder.stats.tokens_per_step == 1.0
    assert {len(fed) for fed in decoder.engine.forwards} == {1}


def test_drafts_keep_to_their_bounds():
    lengths = [2, 1, 9, 0, 4]
    source = ScriptedSource(RUN.stream, lambda truth, call: truth[: lengths[call % 5]])
    decoder = RUN.decoder(source, max_draft=4)
    decoder.clock = None  # a plain step for its time would come in between
    list(decoder.generate(PROMPT, max_tokens=60))
    assert [len(fed) - 1 for fed in decoder.engine.forwards[:5]] == [2, 1, 4, 0, 4]


def test_zero_tokens_feed_the_prompt():
    decoder = RUN.decoder()
    assert list(decoder.generate(PROMPT, max_tokens=0)) == []
    assert decoder.cache.tokens == list(PROMPT[:-1])
    assert ids(decoder.generate((), max_tokens=5)) == RUN.output[:5]


def test_a_cache_may_come_with_a_prefix():
    for cached in range(len(PROMPT) + 1):
        engine = RUN.engine()
        cache = ToyCache(engine, PROMPT[:cached])
        source = perfect(RUN.stream)
        decoder = Decoder(engine, RUN.picker(), source, tokens=PROMPT, cache=cache)
        assert ids(decoder.generate((), max_tokens=20)) == RUN.output[:20]
        RUN.check(decoder, generated=20)


def test_a_prefix_the_sequence_knows_nothing_of_is_refused():
    engine = RUN.engine()
    cache = ToyCache(engine, PROMPT)
    with pytest.raises(InvalidArgumentError, match=r"holds 6 positions .* has 2"):
        Decoder(engine, RUN.picker(), tokens=PROMPT[:2], cache=cache)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt_tokens": []}, "prompt_tokens is empty"),
        ({"prompt_tokens": [1, 60]}, r"prompt_tokens\[1\] is 60, .* from 0 to 59"),
        ({"prompt_tokens": [-1]}, r"prompt_tokens\[0\] is -1"),
        ({"prompt_tokens": [1.0]}, r"prompt_tokens\[0\] is 1.0"),
        ({"prompt_tokens": [True]}, r"prompt_tokens\[0\] is True"),
        ({"prompt_tokens": "text"}, r"prompt_tokens\[0\] is 't'"),
        ({"prompt_tokens": 7}, "prompt_tokens is 7, must be a sequence"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5"),
        ({"max_tokens": True}, "max_tokens is True"),
        ({"stop_tokens": [60]}, r"stop_tokens\[0\] is 60"),
    ],
)
def test_senseless_arguments_are_refused_at_the_call(arguments, message):
    decoder = RUN.decoder()
    given = {"prompt_tokens": PROMPT, "max_tokens": 5, **arguments}
    prompt = given.pop("prompt_tokens")
    with pytest.raises(InvalidArgumentError, match=message):
        decoder.generate(prompt, **given)
    assert decoder.tokens == ()


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers():
    decoder = RUN.decoder(n_ctx=9)
    with pytest.raises(ContextFullError, match="prompt of 10 tokens is more than the context of 9"):
        decoder.generate([1] * 10, max_tokens=5)
    list(decoder.generate(PROMPT, max_tokens=2))
    with pytest.raises(
        ContextFullError, match="prompt of 2 tokens after 8 earlier ones makes 10, more"
    ):
        decoder.generate([1, 2], max_tokens=5)


def test_numpy_tokens_are_tokens():
    decoder = RUN.decoder()
    prompt = np.array(PROMPT, dtype=np.int64)
    assert ids(decoder.generate(prompt, max_tokens=5)) == RUN.output[:5]
    assert {type(token) for token in decoder.tokens} == {int}


def test_greedy_needs_no_special_path():
    run = plain_run(GREEDY)
    decoder = Decoder(ToyEngine(), Picker(GREEDY, 60), perfect(run.stream))
    assert ids(decoder.generate(PROMPT, max_tokens=60)) == run.output

"""Cutting the stream back: what follows is what a new decoder would make of it."""

from __future__ import annotations

import pytest

from maglio.decode import Picker
from maglio.errors import InvalidArgumentError, MaglioError
from support.decoder import Decoder
from support.decoding import PROMPT, SAMPLED, ids, plain_run
from support.toy_engine import ToyCache
from support.toy_sources import ScriptedSource, perfect

RUN = plain_run(SAMPLED)


def fresh(stream, position):
    """What plain decoding generates after ``stream`` when so many tokens were sampled before."""
    decoder = Decoder(RUN.engine(), RUN.picker(), position=position)
    return ids(decoder.generate(stream, max_tokens=20))


@pytest.mark.parametrize("length", [1, 5, 6, 7, 15, 25])
@pytest.mark.parametrize("prompt", [(), (8, 8, 1)])
def test_a_cut_stream_goes_on_like_a_new_one(length, prompt):
    source = ScriptedSource(RUN.stream, lambda truth, _: truth[:5])
    decoder = RUN.decoder(source)
    list(decoder.generate(PROMPT, max_tokens=20))
    decoder.rewind(length)
    kept = RUN.stream[:length]
    assert list(decoder.tokens) == kept
    assert decoder.cache.tokens == kept[: decoder.cache.length]
    assert decoder.cache.length >= min(length, len(PROMPT) + 19)
    assert source.seen == kept[: len(source.seen)]
    assert ids(decoder.generate(prompt, max_tokens=20)) == fresh([*kept, *prompt], 20)
    assert source.seen == list(decoder.tokens)[: len(source.seen)]
    assert decoder.picker.length == len(decoder.tokens)


def test_a_rewind_recomputes_only_what_follows():
    decoder = RUN.decoder()
    list(decoder.generate(PROMPT, max_tokens=20))
    decoder.rewind(10)
    list(decoder.generate((1, 2, 3), max_tokens=1))
    assert decoder.stats.prompt_tokens == 3


def test_a_rewind_in_mid_generation_ends_it():
    decoder = RUN.decoder(perfect(RUN.stream, 6))
    generation = decoder.generate(PROMPT, max_tokens=20)
    for _ in range(4):
        next(generation)
    decoder.rewind(len(PROMPT) + 2)
    with pytest.raises(MaglioError, match="begun another"):
        next(generation)
    kept = RUN.stream[: len(PROMPT) + 2]
    assert ids(decoder.generate((), max_tokens=20)) == fresh(kept, 4)


def test_statistics_outlive_a_rewind():
    decoder = RUN.decoder()
    list(decoder.generate(PROMPT, max_tokens=7))
    decoder.rewind(8)
    assert decoder.stats.committed == 7


@pytest.mark.parametrize("follower", ["cache", "picker", "source"])
def test_an_interrupted_rewind_is_made_good(follower, monkeypatch):
    decoder = RUN.decoder(perfect(RUN.stream, 6))
    list(decoder.generate(PROMPT, max_tokens=20))
    owner, name = {
        "cache": (ToyCache, "truncate"),
        "picker": (Picker, "truncate"),
        "source": (ScriptedSource, "rewind"),
    }[follower]

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            decoder.rewind(10)
    # Other tokens come next, so a follower that kept the old ones would show.
    assert ids(decoder.generate((7, 7), max_tokens=20)) == fresh([*RUN.stream[:10], 7, 7], 20)


@pytest.mark.parametrize("length", [-1, 27, 1.5])
def test_a_length_that_is_none_is_refused(length):
    decoder = RUN.decoder()
    list(decoder.generate(PROMPT, max_tokens=20))
    with pytest.raises(InvalidArgumentError, match="length is"):
        decoder.rewind(length)
    assert len(decoder.tokens) == 26


def test_a_cache_that_cannot_rewind_is_filled_again():
    decoder = RUN.decoder(can_rewind=False)
    list(decoder.generate(PROMPT, max_tokens=20))
    decoder.rewind(10)
    assert ids(decoder.generate((), max_tokens=20)) == fresh(RUN.stream[:10], 20)
    assert decoder.stats.prompt_tokens == 10

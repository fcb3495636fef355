"""Exceptions and Ctrl-C, wherever they strike, leave a stream that can go on as if nothing was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import maglio.decode
from maglio.decode import Token
from maglio.errors import InvalidLogitsError, MaglioError
from support.decoder import Decoder
from support.decoding import GREEDY, PROMPT, SAMPLED, ids, plain_run
from support.interrupts import interrupt_at
from support.toy_sources import ScriptedSource, adversaries, perfect, spoil

DECODE = str(Path(maglio.decode.__file__).parent)
RUN = plain_run(SAMPLED, max_tokens=30)
N_TOKENS = 14


def finish(decoder: Decoder) -> list[int]:
    """Go on after an interruption as a caller would, to the end."""
    begun = len(decoder.tokens) > 0
    left = N_TOKENS - max(0, len(decoder.tokens) - len(PROMPT))
    return ids(decoder.generate(() if begun else PROMPT, max_tokens=left))


def take(generation: Iterator[Token]) -> tuple[list[int], BaseException | None]:
    """What a generation yields, and what ended it early."""
    yielded: list[int] = []
    try:
        yielded.extend(token.id for token in generation)
    except BaseException as error:
        return yielded, error
    return yielded, None


def check_resumes(decoder: Decoder, yielded: list[int]) -> None:
    decoder.settle()
    committed = list(decoder.tokens[len(PROMPT) :])
    assert committed[: len(yielded)] == yielded
    assert RUN.output[: len(committed)] == committed
    assert len(committed) - len(yielded) <= 1
    assert committed + finish(decoder) == RUN.output[:N_TOKENS]
    RUN.check(decoder, generated=N_TOKENS)


def check_clean(decoder: Decoder) -> None:
    """Nothing unverified is in the cache, and the picker knows the stream and no more."""
    decoder.settle()
    tokens = list(decoder.tokens)
    cached = decoder.cache.tokens
    assert cached == tokens[: len(cached)]
    assert decoder.picker.length == len(tokens)
    assert decoder.sequence.position == max(0, len(tokens) - len(PROMPT))


def fail_once(at: int, error: BaseException):
    """A hook that raises ``error`` in call number ``at``."""

    def hook(call: int) -> None:
        if call == at:
            raise error

    return hook


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, OSError])
@pytest.mark.parametrize("when", ["before_call", "after_call"])
@pytest.mark.parametrize("call", range(6))
def test_a_failed_forward_can_be_repeated(call, when, kind):
    error = kind()
    source = adversaries(RUN.stream, 60)["wrong in the middle"]
    decoder = RUN.decoder(source, **{when: fail_once(call, error)})
    yielded, raised = take(decoder.generate(PROMPT, max_tokens=N_TOKENS))
    assert raised is error
    check_clean(decoder)
    assert decoder.finish_reason is None
    check_resumes(decoder, yielded)
    assert source.seen == list(decoder.tokens)[: len(source.seen)]


def mixed_source() -> ScriptedSource:
    def draft(truth: list[int], call: int) -> list[int]:
        return spoil(truth[:4], 2, 60) if call % 2 else truth[:3]

    return ScriptedSource(RUN.stream, draft)


def test_ctrl_c_at_any_line_loses_nothing():
    at, raised = 0, None
    while at == 0 or raised is not None:
        at += 1
        decoder = RUN.decoder(mixed_source())
        generation = decoder.generate(PROMPT, max_tokens=N_TOKENS)
        with interrupt_at(at, DECODE):
            yielded, raised = take(generation)
        assert raised is None or isinstance(raised, KeyboardInterrupt)
        check_clean(decoder)
        check_resumes(decoder, yielded)
    assert at > 500
    assert yielded == RUN.output[:N_TOKENS]


def test_ctrl_c_at_any_line_of_the_clean_up_loses_nothing():
    at, interrupted = 0, True
    while interrupted:
        at += 1
        decoder = RUN.decoder(mixed_source())
        generation = decoder.generate(PROMPT, max_tokens=N_TOKENS)
        yielded = [next(generation).id for _ in range(6)]
        generation.close()
        try:
            with interrupt_at(at, DECODE):
                decoder.settle()
            interrupted = False
        except KeyboardInterrupt:
            pass
        check_clean(decoder)
        check_resumes(decoder, yielded)
    assert at > 20


@pytest.mark.parametrize("row", range(4))
def test_invalid_logits_leave_the_stream_before_them(row):
    decoder = RUN.decoder(perfect(RUN.stream, 4))
    engine = decoder.engine
    healthy = engine.row
    broken = len(PROMPT) + 1 + row  # so long is the prefix of the broken row

    def row_with_nan(prefix):
        logits = healthy(prefix).copy()
        if len(prefix) == broken:
            logits[5] = float("nan")
        return logits

    engine.row = row_with_nan
    yielded, raised = take(decoder.generate(PROMPT, max_tokens=N_TOKENS))
    assert isinstance(raised, InvalidLogitsError)
    assert yielded == RUN.output[: 1 + row]
    check_clean(decoder)
    engine.row = healthy
    check_resumes(decoder, yielded)


def test_an_error_while_a_token_is_read_loses_no_token_that_was_delivered():
    def should_stop(token: int) -> bool:
        if token == RUN.output[3]:
            raise LookupError
        return False

    decoder = RUN.decoder(perfect(RUN.stream, 6))
    yielded, raised = take(decoder.generate(PROMPT, max_tokens=N_TOKENS, should_stop=should_stop))
    assert isinstance(raised, LookupError)
    decoder.sequence.begin((), max_tokens=0)  # leaves the transcript that raises
    check_clean(decoder)
    check_resumes(decoder, yielded)


def test_an_abandoned_generation_gives_way_to_the_next():
    decoder = RUN.decoder(perfect(RUN.stream, 6))
    abandoned = decoder.generate(PROMPT, max_tokens=N_TOKENS)
    yielded = [next(abandoned).id for _ in range(4)]
    assert decoder.cache.length > len(decoder.tokens) - 1  # it holds tokens nobody took
    rest = decoder.generate((), max_tokens=N_TOKENS - 4)
    yielded.append(next(rest).id)
    with pytest.raises(MaglioError, match="begun another"):
        next(abandoned)
    yielded += ids(rest)
    assert yielded == RUN.output[:N_TOKENS]
    RUN.check(decoder, generated=N_TOKENS)


def test_an_abandoned_draft_is_not_in_the_next_turn():
    turns = []
    for close in (True, False):
        decoder = RUN.decoder(perfect(RUN.stream, 6))
        first = decoder.generate(PROMPT, max_tokens=N_TOKENS)
        for _ in range(4):
            next(first)
        if close:
            first.close()
            RUN.check(decoder, generated=4)
        turns.append(ids(decoder.generate((1, 2), max_tokens=9)))
        decoder.settle()
        assert decoder.cache.tokens == list(decoder.tokens[: decoder.cache.length])
    assert turns[0] == turns[1]


def test_rows_of_a_failed_forward_are_not_trusted():
    # An engine that breaks its promise: it raises, and the cache holds something else.
    decoder = RUN.decoder()
    forward = decoder.engine.forward

    def fail(batch):
        decoder.cache.tokens.extend([0] * len(batch[0].tokens))
        decoder.engine.forward = forward
        raise OSError

    decoder.engine.forward = fail
    assert isinstance(take(decoder.generate(PROMPT, max_tokens=N_TOKENS))[1], OSError)
    check_resumes(decoder, [])


def test_rows_that_belong_to_no_segment_are_refused():
    decoder = RUN.decoder()
    sequence = decoder.sequence
    sequence.begin(PROMPT, max_tokens=5)
    [rows] = decoder.engine.forward([sequence.next_segment(128)])
    with pytest.raises(MaglioError, match="not those of the last segment"):
        sequence.accept(np.concatenate([rows, rows]))
    [rows] = decoder.engine.forward([sequence.next_segment(128)])
    sequence.accept(rows)
    with pytest.raises(MaglioError, match="not those of the last segment"):
        sequence.accept(rows)
    assert ids(sequence.take()) == RUN.output[:1]


def test_a_raising_source_is_told_once_and_tried_again_in_the_next_generation():
    calls = []

    def draft(truth: list[int], call: int) -> list[int]:
        calls.append(call)
        if call in (1, 3):
            raise OSError("index file is gone")
        return truth[:3]

    source = ScriptedSource(RUN.stream, draft)
    decoder = RUN.decoder(source)
    with pytest.warns(RuntimeWarning, match="ScriptedSource raised OSError: index file is gone"):
        first = ids(decoder.generate(PROMPT, max_tokens=12))
    assert calls == [0, 1]
    assert decoder.stats.source_error == "OSError: index file is gone"
    assert decoder.stats.accepted == 3
    second = ids(decoder.generate((), max_tokens=12))
    assert calls == [0, 1, 2, 3]
    assert first + second == RUN.output[:24]
    list(decoder.generate((), max_tokens=2))
    assert decoder.stats.source_error is None
    assert source.seen == list(decoder.tokens)[: len(source.seen)]


def test_a_warning_turned_error_does_no_harm():
    decoder = RUN.decoder(adversaries(RUN.stream, 60)["raising later"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yielded, raised = take(decoder.generate(PROMPT, max_tokens=N_TOKENS + 10))
    assert isinstance(raised, RuntimeWarning)
    check_clean(decoder)
    RUN.check(decoder, generated=len(yielded))


def test_ctrl_c_in_a_source_is_not_swallowed():
    def draft(truth: list[int], call: int) -> list[int]:
        if call == 2:
            raise KeyboardInterrupt
        return truth[:3]

    decoder = RUN.decoder(ScriptedSource(RUN.stream, draft))
    with pytest.raises(KeyboardInterrupt):
        list(decoder.generate(PROMPT, max_tokens=N_TOKENS))
    check_clean(decoder)
    check_resumes(decoder, list(decoder.tokens[len(PROMPT) :]))


def test_a_plain_stream_that_cannot_rewind_is_computed_again():
    run = plain_run(GREEDY)
    assert ids(run.decoder(None, can_rewind=False).generate(PROMPT, max_tokens=9)) == run.output[:9]
    decoder = run.decoder(None, can_rewind=False)
    forward = decoder.engine.forward

    def interrupted(batch):
        forward(batch)  # it finishes, and the interrupt rises before its rows arrive
        decoder.engine.forward = forward
        raise KeyboardInterrupt

    generation = decoder.generate(PROMPT, max_tokens=9)
    yielded = [next(generation).id for _ in range(3)]
    decoder.engine.forward = interrupted
    assert isinstance(take(generation)[1], KeyboardInterrupt)
    rest = ids(decoder.generate((), max_tokens=6))
    assert yielded + rest == run.output[:9]

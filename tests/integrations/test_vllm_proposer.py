"""The draft source for vLLM, beside a twin of what vLLM does; no vLLM is needed."""

from __future__ import annotations

import logging
from collections import Counter
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.draft.cascade import Cascade
from maglio.economics.cost import CostCurve
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.integrations.vllm import Proposer
from maglio.integrations.vllm.documents import TheirEncoder, open_documents
from support.vllm_twin import CONTEXT, N_VOCAB, Scripted, Twin, config

FREE = [[1, 1.0], [100, 1.0]]
DEAR = [[1, 1.0], [2, 3.0]]
FLAT = [(1, 1.0), (16, 1.1), (64, 1.4)]


def quiet(**options):
    """Settings under which a draft depends on the tokens of its request alone."""
    return config(**{"cost": FREE, "timings": False, "history_tokens": 0, **options})


def noise(seed: int, n: int) -> list[int]:
    """Distinct tokens."""
    return np.random.default_rng(seed).permutation(np.arange(100, N_VOCAB))[:n].tolist()


def repeating(name: str, seed: int = 0, times: int = 3) -> Scripted:
    """Says again, several times, what its prompt says."""
    line = noise(seed, 24)
    return Scripted(name, [1, 2, *line], line * times)


def indexed(twin: Twin) -> int:
    return twin.proposer._ledger.n_tokens


def test_repeated_text_is_drafted_from_the_request_itself():
    twin = Twin(Proposer, quiet())
    twin.add(repeating("a"))
    twin.run()
    assert twin.finished[0].said == noise(0, 24) * 3
    assert twin.steps < 20  # for 72 tokens
    assert twin.accepted > 0.8 * twin.drafted


def test_text_without_repetition_is_not_drafted():
    twin = Twin(Proposer, quiet())
    text = noise(1, 90)
    twin.add(Scripted("a", text[:30], text[30:]))
    twin.run()
    assert (twin.steps, twin.drafted) == (60, 0)


@st.composite
def _events(draw):
    """Requests with few distinct tokens that come, go and change rows."""
    n = draw(st.integers(2, 6))
    alphabet = draw(st.sampled_from([2, 5, 31]))
    tokens = st.lists(st.integers(0, alphabet - 1), min_size=1, max_size=40)
    texts = [(draw(tokens), draw(tokens)) for _ in range(n)]
    moves = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40))
    return texts, moves


@settings(max_examples=40)
@given(_events())
def test_what_is_drafted_for_a_request_does_not_depend_on_rows_and_neighbours(events):
    texts, moves = events
    together = Twin(Proposer, quiet())
    everyone = [Scripted(str(i), *text) for i, text in enumerate(texts)]
    together.add(*everyone[:2])
    late, drafts = everyone[2:], {request.name: [] for request in everyone}
    for first, second in [*moves, *[(0, 0)] * 60]:
        if first == 5 and late:
            together.add(late.pop())
        live = together.rows
        if max(first, second) < len(live):
            together.swap(first, second)
        together.step()
        for request, draft in zip(together.rows, together.last_drafts, strict=True):
            drafts[request.name].append(draft)
        for request in [r for r in together.rows if not r.left]:
            together.remove(request)
        if not together.rows:
            if not late:
                break
            together.add(late.pop())
    for name, text in enumerate(texts):
        alone = Twin(Proposer, quiet())
        alone.add(Scripted(str(name), *text))
        expected = []
        while alone.rows[0].left:
            alone.step()
            expected.append(alone.last_drafts[0])
        assert drafts[str(name)] == expected[: len(drafts[str(name)])]


def test_requests_with_the_same_tokens_have_an_index_each():
    twin = Twin(Proposer, quiet())
    line = noise(3, 24)
    twin.add(Scripted("a", line, line + [1] * 20), Scripted("b", line, line + [2] * 20))
    twin.run()
    assert Counter(r.said[-1] for r in twin.finished) == {1: 1, 2: 1}
    assert twin.steps < 16


def test_who_was_preempted_is_recognised_when_it_is_back():
    twin = Twin(Proposer, quiet())
    away, stays = repeating("a", 1), repeating("b", 2, times=8)
    twin.add(away, stays)
    twin.step()
    before = twin.proposer._ledger._requests[0]
    twin.preempt(away)
    for _ in range(5):
        twin.step()
    twin.add(away)
    twin.step(reading=[away])
    twin.step()
    assert before.tokens.tolist() == away.tokens
    twin.run()
    assert away.said == noise(1, 24) * 3


def test_finished_requests_are_forgotten():
    twin = Twin(Proposer, quiet())
    stays = Scripted("stays", noise(9, 20), noise(10, 400))
    twin.add(stays)
    for i in range(40):
        short = Scripted(str(i), noise(i, 30), noise(100 + i, 2))
        twin.add(short)
        twin.step()
        twin.step()
        twin.remove(short)
    for _ in range(20):
        twin.step()
    assert len(twin.proposer._ledger) == 1
    assert indexed(twin) == len(stays.tokens)


def test_memory_for_indexes_is_bounded_and_who_found_none_waits_for_it():
    twin = Twin(Proposer, quiet(memory_tokens=60))
    first, second = repeating("a", 1), repeating("b", 2, times=8)
    twin.add(first)
    twin.step()
    twin.step()
    twin.add(second)
    while first.left:
        twin.step()
        assert second.draft == []
    assert len(twin.proposer._ledger) == 1
    twin.remove(first)
    second.tokens = second.tokens[:30]  # short enough for the memory there is
    twin._write(0, second)
    for _ in range(20):
        second.says += second.says[:24]
        twin.step()
    assert second.draft != []
    assert len(twin.proposer._ledger) == 1


def test_prompts_that_come_together_are_indexed_in_pieces(monkeypatch):
    monkeypatch.setattr("maglio.integrations.vllm.proposer._INDEXED_PER_CALL", 40)
    twin = Twin(Proposer, quiet())
    twin.add(*(repeating(str(i), i) for i in range(4)))
    known = []
    for _ in range(4):
        twin.step()
        known.append(len(twin.proposer._ledger))
    assert known == [2, 4, 4, 4]
    twin.run()
    assert twin.accepted > 100


def test_a_prompt_that_is_still_read_is_left_alone():
    twin = Twin(Proposer, quiet())
    reads, goes = repeating("a", 1), repeating("b", 2)
    twin.add(reads, goes)
    for _ in range(3):
        twin.step(reading=[reads])
        assert twin.last_drafts[0] == []
    assert len(twin.proposer._ledger) == 1
    twin.run()
    assert reads.said == noise(1, 24) * 3


@pytest.mark.parametrize("n_drafts", [1, 8, 128])
def test_nothing_is_drafted_beyond_the_context(n_drafts):
    twin = Twin(Proposer, quiet(n_drafts=n_drafts, context=64))
    twin.add(Scripted("a", [1, 2] * 8, [1, 2] * 24))
    twin.run()  # the twin checks the length of every draft
    assert len(twin.finished[0].tokens) == 64
    assert twin.accepted > 20


def test_a_draft_that_vllm_cut_is_judged_as_far_as_it_was_verified():
    whole, cut = (Twin(Proposer, quiet()) for _ in range(2))
    cut.cut = 2
    for twin in (whole, cut):
        twin.add(repeating("a", times=6))
        for _ in range(3):
            twin.step()
    assert whole.proposer._ledger._requests[0].n_verified == 8
    assert cut.proposer._ledger._requests[0].n_verified == 2
    nothing = Twin(Proposer, quiet())
    nothing.cut = 0
    nothing.add(repeating("a", times=6))
    for _ in range(130):  # a gate that took these for rejected would be off by now
        nothing.step()
    assert nothing.last_drafts != [[]]


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["propose", "observe"])
def test_an_error_costs_the_drafts_of_its_request_alone(monkeypatch, caplog, method):
    original = getattr(Cascade, method)
    calls = Counter()

    def fails(self, *args):
        calls[id(self)] += 1
        first = next(iter(calls))
        if id(self) == first and calls[first] > 3:
            raise MemoryError("no more")
        return original(self, *args)

    monkeypatch.setattr(Cascade, method, fails)
    twin = Twin(Proposer, quiet())
    broken, sound = repeating("a", 1, times=4), repeating("b", 2, times=4)
    twin.add(broken, sound)
    with caplog.at_level(logging.WARNING):
        twin.run()
    assert broken.said == noise(1, 24) * 4
    assert sound.said == noise(2, 24) * 4
    assert twin.accepted > 50
    assert calls[next(iter(calls))] == 4  # not asked again
    assert [record.exc_info[0] for record in caplog.records] == [MemoryError]


def test_an_error_that_is_nobodys_costs_the_drafts_of_its_step(monkeypatch, caplog):
    twin = Twin(Proposer, quiet())
    request = repeating("a", times=6)
    twin.add(request)
    twin.step()
    with monkeypatch.context() as patch:
        patch.setattr(twin.proposer._ledger, "recognise", lambda rows: 1 / 0)
        for _ in range(2):
            twin.step()
            assert twin.last_drafts == [[]]
    twin.run()
    assert request.said == noise(0, 24) * 6
    assert twin.accepted > 60
    assert len(caplog.records) == 1


def test_ids_outside_the_vocabulary_cost_drafts_alone(caplog):
    twin = Twin(Proposer, quiet())
    twin.add(Scripted("a", [1, N_VOCAB + 5, 2], [7] * 9), repeating("b"))
    twin.run()
    assert twin.accepted > 20
    assert len(caplog.records) == 1


def test_arguments_that_vllm_may_add_are_ignored():
    proposer = Proposer(quiet())
    proposer.load_model("a model", quickly=True)
    ids, lengths = np.zeros((1, CONTEXT), dtype=np.int32), np.array([3], dtype=np.int32)
    assert proposer.propose([[0]], lengths, ids, None, more=1) == [[0] * 8]
    assert proposer.propose([], lengths, ids) == []


# --- what it drafts from --------------------------------------------------------------------------


def documents(tmp_path, *texts):
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_text(text)
    return [str(path) for path in paths]


class Spelled:
    """A tokenizer as vLLM has them: an id per character."""

    eos_token_id = 3

    def encode(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return [ord(c) % N_VOCAB for c in text]


@pytest.fixture
def spelled(monkeypatch):
    encoder = TheirEncoder(Spelled())
    monkeypatch.setattr("maglio.integrations.vllm.proposer.vllm_encoder", lambda model: encoder)
    return encoder


def test_documents_are_indexed_once_and_serve_all_requests(tmp_path, spelled):
    text = "The mill stands where two streams meet."
    twin = Twin(Proposer, quiet(references=documents(tmp_path, text, "Another text.")))
    ids = spelled.encode(text, add_special=False)
    twin.add(*(Scripted(str(i), [900 + i, *ids[:4]], ids[4:]) for i in range(6)))
    twin.run()
    assert len(twin.proposer._documents) == 2
    assert twin.steps < 10
    assert twin.accepted > 6 * 20


def test_documents_of_another_model_are_refused(tmp_path, spelled):
    paths = documents(tmp_path, "abc")
    with pytest.raises(InvalidArgumentError, match=r"0\.txt has token ids up to 99.* has 50"):
        open_documents(map(tmp_path.joinpath, paths), n_vocab=50, encoder=lambda: spelled)
    with pytest.raises(InvalidArgumentError, match="missing"):
        Proposer(config(references=str(tmp_path / "missing.txt")))


def test_what_requests_said_is_drafted_for_later_ones():
    line = noise(4, 40)
    for tokens, steps in ((1000, 12), (0, 40)):
        twin = Twin(Proposer, quiet(history_tokens=tokens))
        twin.add(Scripted("a", [1], line))
        twin.run()
        twin.add(Scripted("filler", noise(5, 4), noise(6, 30)))  # so that it can be missed
        twin.run()
        before = twin.steps
        twin.add(Scripted("b", [2, *line[:2]], line[2:]))
        twin.run()
        assert twin.steps - before <= steps
        assert twin.steps - before >= steps - 9


def test_prompts_are_nobodys_history():
    twin = Twin(Proposer, quiet(history_tokens=1000))
    secret = noise(7, 40)
    twin.add(Scripted("a", secret, [5] * 20))
    twin.run()
    for _ in range(2):
        twin.add(Scripted("filler", [9], noise(6, 30)))
        twin.run()
    assert len(twin.proposer._history) > 0
    assert twin.proposer._history.index().max_token in (5, max(noise(6, 30)))


# --- what pays ------------------------------------------------------------------------------------


def drafted(settings, requests=1, **options) -> int:
    twin = Twin(Proposer, settings, **options)
    twin.add(*(repeating(str(i), i, times=6) for i in range(requests)))
    twin.run()
    return twin.drafted


def test_where_rows_are_dear_nothing_is_drafted():
    assert drafted(quiet(cost=DEAR)) == 0
    assert drafted(quiet(cost=FREE)) > 100


def test_larger_batches_draft_less():
    curve = [[1, 1.0], [8, 1.1], [9, 1.5], [64, 40.0]]
    each = [drafted(quiet(cost=curve), n, rows=16) / n for n in (1, 2, 6, 12)]
    assert each[0] > 60
    assert each[0] >= each[1] > each[2]
    assert each[3] < 5


def test_a_batch_in_which_no_draft_can_pay_is_not_even_looked_at():
    twin = Twin(Proposer, quiet(cost=[[1, 1.0], [2, 1.1], [3, 2.0], [4, 3.0], [8, 7.0]]))
    others = [repeating(str(i), i, times=9) for i in range(3)]
    stays = repeating("stays", 9, times=9)
    twin.add(stays)
    for _ in range(4):
        twin.step()
    assert stays.draft != []
    twin.add(*others)
    for _ in range(5):
        twin.step()
        assert len(twin.proposer._ledger) == 1
        assert twin.last_drafts == [[]] * 4
    for request in others:
        twin.remove(request)
    twin.step()  # the request is found where it was, and goes on from there
    assert len(twin.proposer._ledger) == 1
    assert twin.proposer._ledger._requests[0].tokens.tolist() == stays.tokens
    twin.step()
    assert stays.draft != []


def slow(rows, requests):
    """Seconds of a step where verifying costs far more than the table says."""
    return 1.0 if rows == requests else 6.0


def as_the_table_says(rows, requests):
    return CostCurve(FLAT).cost(rows)


def halting(name: str) -> Scripted:
    """Repeats itself, but for every fourth token."""
    rng = np.random.default_rng(int(name))
    line, says = rng.integers(0, 100, 24), []
    for _ in range(18):
        says += np.where(np.arange(24) % 4 == 3, rng.integers(100, N_VOCAB, 24), line).tolist()
    return Scripted(name, line.tolist(), says)


def test_times_of_steps_switch_drafts_off_where_verifying_is_slow():
    for n in (1, 4):
        counts = {}
        for name, seconds, timings in (
            ("slow", slow, True),
            ("as expected", as_the_table_says, True),
            ("not timed", slow, False),
        ):
            twin = Twin(
                Proposer, config(cost=FLAT, history_tokens=0, timings=timings), seconds=seconds
            )
            twin.add(*(halting(str(i)) for i in range(n)))
            twin.run()
            counts[name] = twin.drafted
        assert counts["slow"] < 0.6 * counts["not timed"]  # 32 verify steps come first
        assert counts["as expected"] > 0.8 * counts["not timed"]


@pytest.mark.parametrize("options", [{"timings": False}, {"backend": "external_launcher"}])
def test_without_timings_the_clock_decides_nothing(options):
    counts = {
        drafted(config(**options, history_tokens=0, device="cuda"), 3, seconds=seconds)
        for seconds in (slow, lambda rows, requests: 0.01 * rows)
    }
    assert len(counts) == 1


# --- options and ids ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (config(reference=["a"]), r"option 'reference'; there are references, history_tokens"),
        (config(references=5), "references is 5, must be a list of paths"),
        (config(history_tokens=-1), "history_tokens is -1"),
        (config(memory_tokens="all"), "memory_tokens is 'all'"),
        (config(timings=1), "timings is 1, must be true or false"),
        (config(cost=[1, 2]), "must be a list of"),
        (config(cost=[[2, 1.0], [4, 2.0]]), "begin with 1 row"),
        (config(additional={"maglio": ["x"]}), "must be an object"),
        (config(n_drafts=129), "num_speculative_tokens is 129"),
        (config(hybrid=True), "recurrent layers"),
    ],
)
def test_what_cannot_be_had_is_said_when_vllm_starts(settings, says):
    with pytest.raises(InvalidArgumentError, match=says):
        Proposer(settings)


@pytest.mark.parametrize("additional", [{}, {"other": 1}, None, object()])
def test_without_options_there_are_defaults(additional):
    settings = config()
    settings.additional_config = additional
    assert Proposer(settings).propose([], np.zeros(0), np.zeros((0, 0))) == []


def test_with_ids_a_request_ends_when_vllm_says_so():
    twin = Twin(Proposer, quiet(history_tokens=1000))
    twin.proposer.follow_ids(twin.ids)
    first, second = repeating("a", 1), repeating("b", 2, times=6)
    twin.add(first, second)
    while first.left:
        twin.step()
        twin.swap(0, 1)
    twin.remove(first)
    twin.proposer.end(["a", "unknown"])
    assert len(twin.proposer._ledger) == 1
    assert len(twin.proposer._history) == len(first.said)
    twin.run()
    assert second.said == noise(2, 24) * 6


def test_an_id_is_not_believed_against_the_tokens():
    twin = Twin(Proposer, quiet())
    twin.proposer.follow_ids(lambda: ["always the same"] * len(twin.rows))
    twin.add(repeating("a", 1), repeating("b", 2))
    twin.run()
    assert sorted(r.said[0] for r in twin.finished) == sorted(noise(i, 24)[0] for i in (1, 2))


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_worker_says_what_to_install():
    with pytest.raises(MaglioError, match=r'pip install "maglio\[vllm\]"'):
        import_module("maglio.integrations.vllm.worker")

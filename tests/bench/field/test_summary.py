"""Runs put together: speeds, ratios, and what is said about them."""

from __future__ import annotations

import dataclasses
import math
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.bench.field.line import FieldRun, PeakMemory
from maglio.bench.field.ratio import by_round, compare
from maglio.bench.field.results import FieldResults
from maglio.bench.field.summary import Summary, summarise
from maglio.bench.field.summary_file import read_summary, write_summary
from maglio.bench.field.verdict import verdict, verdicts
from maglio.errors import DataFileError
from support.field_results import (
    CONTESTANTS,
    TASKS,
    failed,
    field_runs,
    growth,
    header,
    run,
    write_results,
)

GREEDY = ("code edit", 0.0)


def summary_of(*runs: FieldRun) -> Summary:
    return summarise(FieldResults(header(), runs, {"maglio": 123_000_000}, ()))


def test_a_speed_is_all_tokens_but_the_first_over_all_decoding_time() -> None:
    short = run("maglio", 1.0, tokens=11, decode_s=1.0)
    long = run("maglio", 1.0, tokens=91, decode_s=2.0, prompt="b")
    [cell] = summary_of(short, long).cells
    assert (cell.tokens, cell.decode_s, cell.tokens_per_s) == (100, 3.0, 100 / 3.0)
    assert cell.own is cell.peer is None


def test_a_ratio_is_of_the_same_prompts_in_the_same_rounds() -> None:
    ours = by_round(
        [
            run("maglio", 300.0),
            run("maglio", 90.0, prompt="b"),
            run("maglio", 900.0, prompt="b", round=1),  # the other failed there
            run("maglio", 900.0, prompt="c"),  # the other never did it
        ]
    )
    plain = by_round(
        [
            run("maglio-plain", 100.0),
            run("maglio-plain", 100.0, prompt="b"),
            failed("maglio-plain", "crashed", prompt="b", round=1),
        ]
    )
    ratio = compare(ours, plain)
    assert ratio is not None
    assert (ratio.low, ratio.high, ratio.prompts, ratio.below) == (
        pytest.approx(0.9),
        pytest.approx(3.0),
        2,
        1,
    )
    assert ratio.mean == pytest.approx((3.0 * 0.9) ** 0.5)
    assert ratio.noise is None  # no prompt has two rounds
    assert compare(ours, {}) is None


def test_noise_is_how_far_the_rounds_of_a_prompt_lie_apart() -> None:
    ours = [run("maglio", rate, round=i) for i, rate in enumerate((190.0, 210.0))]
    ours += [run("maglio", 500.0, round=i, prompt="b") for i in (0, 1)]
    plain = [run("maglio-plain", 100.0, round=i, prompt=p) for i in (0, 1) for p in ("a", "b")]
    ratio = compare(by_round(ours), by_round(plain))
    assert ratio is not None
    assert ratio.noise == pytest.approx(math.sqrt(2 * 0.05**2 / 2 / 4))


def test_the_best_peer_is_the_fastest_that_is_not_maglio() -> None:
    summary = summary_of(*field_runs())
    peer = summary.best_peer(GREEDY)
    assert peer is not None
    assert peer.contestant == "theirs-ngram"
    cells = {cell.contestant: cell for cell in summary.at(GREEDY)}
    ratio = cells["maglio"].peer
    assert ratio is not None
    assert ratio.high == pytest.approx(300.0 / (50.0 * 3**0.5))
    assert cells["maglio-plain"].own is None
    assert cells["maglio-plain"].peer is not None
    assert cells["theirs-ngram"].peer is None
    assert cells["theirs-ngram"].own is not None
    assert (cells["theirs-ngram"].equal, cells["theirs-ngram"].compared) == (2, 4)
    assert summary.lead == "maglio"


def test_a_peer_that_fails_slow_prompts_is_not_the_best() -> None:
    runs = [
        run(name, rate, prompt=p)
        for name, rate in (("maglio", 300.0), ("theirs-plain", 50.0))
        for p in ("a", "b")
    ]
    runs += [run("theirs-ngram", 90.0, prompt="a"), failed("theirs-ngram", "it hung", prompt="b")]
    peer = summary_of(*runs).best_peer(GREEDY)
    assert peer is not None
    assert peer.contestant == "theirs-plain"


def test_what_an_engine_does_not_say_is_not_counted() -> None:
    told = run("maglio", 100.0, steps=40, drafted=80, accepted=60)
    untold = run("maglio", 100.0, prompt="b")
    [cell] = summary_of(told, untold).cells
    assert (cell.acceptance_rate, cell.acceptance_length) == (0.75, 2.5)
    [cell] = summary_of(untold).cells
    assert (cell.acceptance_rate, cell.acceptance_length) == (None, None)


def test_failures_are_counted_and_give_no_speed() -> None:
    summary = summary_of(
        failed("maglio", "it hung"),
        failed("maglio", "it hung", round=1),
        run("maglio-plain", 100.0),
    )
    plain, cell = summary.cells
    assert plain.tokens_per_s == pytest.approx(100.0)
    assert (cell.runs, cell.failed, cell.tokens_per_s, cell.first_token_s) == (2, 2, None, None)
    assert [(f.contestant, f.count, f.error) for f in summary.failures] == [
        ("maglio", 2, "it hung")
    ]
    assert verdict(summary, GREEDY) == "Greedy: maglio gave no result in 2 runs."


rates = st.floats(1.0, 1e4)
some_runs = st.builds(
    run,
    st.sampled_from([c.name for c in CONTESTANTS]),
    rates,
    task=st.sampled_from([task.name for task in TASKS]),
    prompt=st.sampled_from("ab"),
    round=st.integers(0, 2),
    temperature=st.sampled_from([0.0, 0.7]),
    tokens=st.integers(0, 300),
    decode_s=st.floats(0.0, 10.0),
    steps=st.none() | st.integers(0, 300),
    drafted=st.none() | st.integers(0, 300),
    accepted=st.none() | st.integers(0, 300),
    equal=st.none() | st.booleans(),
    error=st.none() | st.text(max_size=5),
)
run_lists = st.lists(some_runs, max_size=12, unique_by=lambda one: one.cell)


@settings(max_examples=40)
@given(run_lists, st.randoms(use_true_random=False))
def test_the_order_of_lines_changes_nothing(runs: list[FieldRun], chance: random.Random) -> None:
    def said(some: list[FieldRun]) -> list[object]:
        return [
            (c.contestant, c.runs, c.failed, c.tokens, pytest.approx(c.tokens_per_s), c.equal)
            for c in summary_of(*some).cells
        ]

    shuffled = list(runs)
    chance.shuffle(shuffled)
    assert said(shuffled) == said(runs)


@settings(max_examples=40)
@given(run_lists)
def test_a_summary_comes_back_from_its_file(runs: list[FieldRun]) -> None:
    summary = dataclasses.replace(summary_of(*runs), growth=tuple(growth()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary.jsonl"
        write_summary(path, summary)
        assert read_summary(path) == summary


def test_results_and_their_summary_are_read_alike(tmp_path: Path) -> None:
    lines = [*field_runs(), PeakMemory("maglio", 5), *growth()]
    results = write_results(tmp_path / "results.jsonl", header(), *lines)
    summary = read_summary(results)
    write_summary(tmp_path / "summary.jsonl", summary)
    assert read_summary(tmp_path / "summary.jsonl") == summary
    assert summary.memory == {"maglio": 5}
    assert len(summary.growth) == len(growth())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"runs": 4', b'"runs": -4', "line 2, runs is -4"),
        (b'"runs": 4', b'"runs": 4.5', "line 2, runs is 4.5"),
        (b'"decode_s": 4.0', b'"decode_s": 1e999', "decode_s is inf"),
        (b'"runs": 4, ', b"", "line 2: its keys must be task,"),
        (b'"own": null', b'"own": {}', "line 2, own: its keys must be mean,"),
        (b'"own": null', b'"own": 7', "line 2, own: its keys must be mean,"),
        (
            b'"contestant": "maglio-plain"',
            b'"contestant": "x"',
            "does not name 'code edit' and 'x'",
        ),
        (b'"runs": 4', b'"runs": 4}', "line 2 is not valid JSON"),
    ],
)
def test_a_damaged_summary_is_refused(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    path = tmp_path / "summary.jsonl"
    write_summary(path, summary_of(*(one for one in field_runs() if one.task == "code edit")))
    lines = path.read_bytes().splitlines(keepends=True)
    cells = [line for line in lines if line.startswith(b'{"kind": "cell"')]
    assert old in cells[0]
    path.write_bytes(lines[0] + cells[0].replace(old, new, 1))
    with pytest.raises(DataFileError, match=r"summary\.jsonl") as caught:
        read_summary(path)
    assert said in str(caught.value)


def test_cells_and_runs_do_not_go_together(tmp_path: Path) -> None:
    path = tmp_path / "summary.jsonl"
    write_summary(path, summary_of(*field_runs()))
    both = path.read_bytes() + write_results(tmp_path / "run", run("maglio", 1.0)).read_bytes()
    path.write_bytes(both)
    with pytest.raises(DataFileError, match="runs and of cells"):
        read_summary(path)


# --- verdicts -------------------------------------------------------------------------------------


def test_a_gain_and_a_loss_are_said_in_the_same_words() -> None:
    summary = summary_of(*field_runs())
    greedy, sampled = verdicts(summary, "code edit")
    assert greedy == (
        "Greedy: maglio decodes 200 tokens per second. That is ahead of the best peer, "
        "theirs-ngram (71.7): 2.91 times its speed (2.45 to 3.46). It is ahead of its own "
        "plain decoding: 2.12 times its speed (1.50 to 3.00). Outputs equal to plain "
        "decoding: 4 of 4. Outputs of others unlike their own plain ones: theirs-ngram 2 of 4."
    )
    assert sampled.startswith("T = 0.7: maglio decodes ")
    [free] = verdicts(summary, "free form")
    assert free == (
        "Greedy: maglio decodes 98.0 tokens per second. That is behind the best peer, theirs-plain "
        "(120): 0.82 times its speed (0.82 to 0.82). It is behind its own plain decoding: 0.98 "
        "times its speed (0.98 to 0.98). Outputs equal to plain decoding: 4 of 4."
    )


def test_prompts_that_say_the_contrary_are_counted() -> None:
    ours = [run("maglio", rate, prompt=p) for p, rate in (("a", 300.0), ("b", 90.0))]
    plain = [run("maglio-plain", 100.0, prompt=p) for p in ("a", "b")]
    said = verdict(summary_of(*ours, *plain), GREEDY)
    assert "1.64 times its speed (0.90 to 3.00), slower on 1 of 2 prompts." in said
    said = verdict(
        summary_of(*(dataclasses.replace(one, decode_s=one.decode_s * 3) for one in ours), *plain),
        GREEDY,
    )
    assert "0.55 times its speed (0.30 to 1.00), not slower on 1 of 2 prompts." in said


def test_what_lies_within_noise_is_level() -> None:
    ours = [run("maglio", rate, round=i) for i, rate in enumerate((90.0, 120.0))]
    plain = [run("maglio-plain", 100.0, round=i) for i in (0, 1)]
    assert "It is level with its own plain decoding: 1.03" in verdict(
        summary_of(*ours, *plain), GREEDY
    )


def test_outputs_that_differ_are_said_of_ours_too() -> None:
    said = verdict(summary_of(run("maglio", 100.0, equal=False)), GREEDY)
    assert "Outputs unlike plain decoding: 1 of 1." in said
    assert "no peer did the same prompts" in said

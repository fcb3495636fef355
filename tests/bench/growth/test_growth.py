"""Growth curves: what is measured, and what is done with the points."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import maglio
from maglio.bench.field.curve import curves_of
from maglio.bench.field.growth_figure import growth_figure
from maglio.bench.field.line import GrowthPoint
from maglio.bench.field.results import read_results
from maglio.bench.growth import conversation, drafting, measure, steps, streams
from maglio.bench.growth.drafting import Replay, hours_points, reference_points
from maglio.bench.growth.own_process import in_own_process
from maglio.bench.growth.points_file import PointsFile
from maglio.bench.growth.scale import FULL, QUICK, Scale
from maglio.bench.growth.synthetic import N_VOCAB, make_quoting, make_stream
from maglio.cli import bench_growth
from maglio.cli.app import app
from maglio.draft.calibrated import CalibratedPolicy
from maglio.draft.cascade import Cascade
from maglio.draft.source import Draft, Step
from maglio.economics.cost import UNPROBED_NATIVE_COST
from maglio.errors import DataFileError, InvalidArgumentError, MaglioError
from support.chat_model import chat_model, write_chat_model
from support.field_results import growth, header, point, write_results

SMALL = Scale(
    contexts=(16, 64),
    references=(1_000,),
    streams=(1, 3),
    stream_tokens=8,
    conversations=(64, 160),
    hours=(1,),
    repetitions=3,
    rounds=2,
    steps=40,
)
QUANTITIES = (
    steps.CONTEXT,
    conversation.CONVERSATION,
    streams.STREAMS,
    drafting.REFERENCE_BUILD,
    drafting.REFERENCE_MEMORY,
    drafting.REFERENCE_STEP,
    drafting.STREAM_STEP,
    drafting.STREAM_MEMORY,
)


class Ticks:
    """A clock on which each look takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> maglio.Model:
    return chat_model(tmp_path_factory.mktemp("growth"), n_ctx=1024)


def everything(curve: str, series: str, x: float) -> bool:
    return True


def places(points: Iterator[GrowthPoint]) -> list[tuple[str, float]]:
    return [(point.series, point.x) for point in points]


def test_steps_are_measured_at_every_context_that_fits(model: maglio.Model) -> None:
    scale = Scale(**{**fields(SMALL), "contexts": (16, 64, 1017)})
    points = list(steps.context_points(model.engine, scale, everything, clock=Ticks()))
    assert places(iter(points)) == [(name, x) for x in (16, 64) for name in steps.WIDTHS]
    assert {(p.value, p.low, p.high, p.unit) for p in points} == {(1e3, 1e3, 1e3, "ms")}


def fields(scale: Scale) -> dict[str, Any]:
    return {name: getattr(scale, name) for name in Scale.__dataclass_fields__}


def test_what_was_measured_is_not_measured_again(model: maglio.Model) -> None:
    def wanted(curve: str, series: str, x: float) -> bool:
        return x != 16

    points = steps.context_points(model.engine, SMALL, wanted, clock=Ticks())
    assert {x for _, x in places(points)} == {64}


def test_models_are_compared_from_small_to_large(tmp_path: Path) -> None:
    opened = []

    def open_engine(path: Path) -> Any:
        opened.append(path.name)
        return chat_model(tmp_path, family=path.stem).engine

    for family in ("llama", "qwen3"):
        chat_model(tmp_path, family=family)
    files = sorted((tmp_path / f"{name}.gguf" for name in ("llama", "qwen3")), key=steps.parameters)
    points = steps.size_points(files[::-1], open_engine, SMALL, everything, clock=Ticks())
    sizes = [x for _, x in places(points)]
    assert opened == [file.name for file in files]
    assert sizes == sorted(sizes)
    # Numbers of 8 bits and a half each, but for small tensors of 32.
    assert sizes[0] == pytest.approx(files[0].stat().st_size / (34 / 32), rel=0.2)


def test_streams_and_conversations_grow_as_asked(model: maglio.Model) -> None:
    points = list(streams.stream_points(model, SMALL, everything, clock=Ticks()))
    assert places(iter(points)) == [(s, n) for n in (1, 3) for s in ("plain", "with drafts")]
    assert {p.x: p.value for p in points} == {1: 8.0, 3: 24.0}  # tokens in a tick
    points = list(conversation.conversation_points(model, SMALL, everything, clock=Ticks()))
    kept, anew = conversation.KEPT, conversation.ANEW
    assert places(iter(points)) == [(s, n) for n in (64, 160) for s in (kept, anew)]


def test_a_conversation_ends_where_the_context_is_full(tmp_path: Path) -> None:
    tiny = chat_model(tmp_path, n_ctx=256)
    scale = Scale(**{**fields(SMALL), "conversations": (64, 4096)})
    points = conversation.conversation_points(tiny, scale, everything)
    assert {x for _, x in places(points)} == {64}


class Told(Cascade):
    """A cascade that notes what it was told."""

    def __init__(self) -> None:
        super().__init__(N_VOCAB, CalibratedPolicy(UNPROBED_NATIVE_COST))
        self.told: list[Step] = []

    def observe(self, step: Step) -> None:
        self.told.append(step)
        super().observe(step)


def test_a_replayed_stream_is_told_whole_and_drafts_are_judged_by_it() -> None:
    document = make_stream(3_000)
    stream = make_quoting(document, 3_000)
    source = Told()
    source.add_reference(document)
    samples = Replay(source, stream, Ticks()).steps(400)
    assert set(samples) == {2e6}  # two ticks: proposing, observing
    said = [token for step in source.told for token in step.tokens]
    assert said == stream[: len(said)].tolist()
    drafted = [step for step in source.told if step.draft is not None]
    assert sum(step.accepted for step in drafted) > 100
    for step in drafted:
        assert isinstance(step.draft, Draft)
        assert list(step.draft.tokens[: step.accepted]) == list(step.tokens[:-1])
        if step.accepted < len(step.draft.tokens):
            assert step.draft.tokens[step.accepted] != step.tokens[-1]


def test_a_stream_quotes_its_document() -> None:
    document = make_stream(2_000)
    stream = make_quoting(document, 5_000)
    grams = {tuple(g) for g in np.lib.stride_tricks.sliding_window_view(document, 6).tolist()}
    windows = np.lib.stride_tricks.sliding_window_view(stream, 6).tolist()
    share = sum(tuple(window) in grams for window in windows) / len(windows)
    assert 0.3 < share < 0.7
    assert stream.max() < N_VOCAB


def test_references_and_hours_give_their_points() -> None:
    points = list(reference_points(2_000, steps=20, rounds=2, clock=Ticks()))
    assert [p.curve for p in points] == [
        q.curve
        for q in (drafting.REFERENCE_BUILD, drafting.REFERENCE_MEMORY, drafting.REFERENCE_STEP)
    ]
    assert points[0].value == 1.0
    assert 20 < 1e6 * points[1].value / 2_000 < 200  # bytes of a token
    hours = list(hours_points((1, 2), steps=20, tokens_per_hour=70_000, clock=Ticks()))
    assert [(p.curve, p.x) for p in hours] == [
        (q.curve, x) for x in (1, 2) for q in (drafting.STREAM_STEP, drafting.STREAM_MEMORY)
    ]


def one_point_and_an_end() -> Iterator[GrowthPoint]:
    os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C at a terminal does
    yield point("a", 1.0, float(os.getpid()))
    os._exit(3)


def one_point_and_a_failure() -> Iterator[GrowthPoint]:
    yield point("a", 1.0, 1.0)
    raise MaglioError("there is nothing to measure")


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (one_point_and_an_end, "ended with status 3"),
        (one_point_and_a_failure, "there is nothing to measure"),
    ],
)
def test_a_measurement_that_fails_says_so_and_keeps_its_points(work: Any, said: str) -> None:
    points = in_own_process(work)
    assert next(points).value != os.getpid()
    with pytest.raises(MaglioError, match=said):
        next(points)


# --- the file -------------------------------------------------------------------------------------


def test_points_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = write_results(tmp_path / "results.jsonl", header(), growth()[0])
    with path.open("ab") as file:
        file.write(b'{"kind": "growth", "cur')  # its process was killed
    with PointsFile(path, header(rounds=9)) as file:
        assert not file.lacks("first token", "kept", 256)
        assert file.lacks("first token", "kept", 1024)
        file.add(growth()[2])
        assert not file.lacks("first token", "kept", 1024)
        with pytest.raises(DataFileError, match="another process"):
            PointsFile(path, header())
    assert read_results(path).growth == (growth()[0], growth()[2])
    assert read_results(path).header == header()


def test_results_of_another_model_are_left_alone(tmp_path: Path) -> None:
    path = write_results(tmp_path / "results.jsonl", header())
    before = path.read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"tiny\.gguf with 2 threads"):
        PointsFile(path, header(threads=7))
    path.write_bytes(b"notes\n")
    with pytest.raises(DataFileError, match="line 1 is not valid JSON"):
        PointsFile(path, header())
    assert before
    assert path.read_bytes() == b"notes\n"


def test_the_command_measures_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, output = write_chat_model(tmp_path / "model.gguf"), tmp_path / "growth.jsonl"
    shape = write_chat_model(tmp_path / "shape.gguf", "qwen3")
    monkeypatch.setattr(bench_growth, "QUICK", SMALL)
    monkeypatch.setattr(bench_growth, "field_machine", lambda: header().machine)
    monkeypatch.setattr(measure, "hours_points", partial(hours_points, tokens_per_hour=10_000))
    command = ["bench", "growth", "-m", model, "-o", output, "--quick", "-t", "1"]
    arguments = [*map(str, command), "--shapes", str(shape)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    results = read_results(output)
    found = {(p.curve, p.series) for p in results.growth}
    assert found == {(q.curve, s) for q in (*QUANTITIES, steps.SIZE) for s in q.expected}
    assert results.header.threads == 1
    assert results.header.model.name == "model.gguf"
    lines = output.read_bytes().splitlines(keepends=True)
    gone = next(n for n, line in enumerate(lines) if b'"plain step"' in line)
    output.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "1 point added" in done.output
    again = output.read_bytes().splitlines(keepends=True)
    assert again[:-1] == lines[:gone] + lines[gone + 1 :]
    shown = CliRunner().invoke(app, ["bench", "report", str(output)], catch_exceptions=False)
    assert "tokens of context" in shown.output


def test_scales_ascend() -> None:
    for scale in (FULL, QUICK):
        for name, value in fields(scale).items():
            if isinstance(value, tuple):
                assert list(value) == sorted(set(value)), name
    assert set(QUICK.contexts) <= set(FULL.contexts)


# --- curves ---------------------------------------------------------------------------------------


def test_growth_is_told_by_its_power() -> None:
    first, memory = curves_of(growth())
    kept, anew = first.series
    assert kept.power == pytest.approx(np.log(60 / 50) / np.log(16))
    assert (kept.expected_power, anew.expected_power) == (0.0, 1.0)
    assert memory.series[0].power == pytest.approx(1.0)
    one = curves_of([point("a", 1.0, 1.0, expected="O(n) until arithmetic limits")])[0].series[0]
    assert one.power is None
    assert one.expected_power is None
    twice = curves_of([point("a", 1.0, 1.0), point("a", 1.0, 2.0)])
    assert [p.value for p in twice[0].series[0].points] == [2.0]


@pytest.mark.parametrize(
    "values",
    [
        [(1.0, 5.0)],
        [(1.0, 5.0), (1e7, 5.0)],
        [(512.0, 1e-4), (16384.0, 1e4)],
        [(0.0, 1.0), (1.0, 0.0), (2.0, 3.0)],
    ],
)
def test_a_picture_holds_all_of_its_points(values: list[tuple[float, float]]) -> None:
    [curve] = curves_of([point("a <b>", x, y) for x, y in values])
    picture = growth_figure(curve)
    assert "<b>" not in picture
    numbers = re.findall(r'[c]?[xy][12]?="(-?[\d.]+)"', picture)
    assert numbers
    assert all(0 <= float(number) <= 400 for number in numbers)
    assert picture.count("<circle") == sum(x > 0 and y > 0 for x, y in values)
    assert 1 <= picture.count('text-anchor="end"') <= 7


def test_what_cannot_stand_on_logarithmic_axes_has_no_picture() -> None:
    [curve] = curves_of([point("a", 0.0, 1.0)])
    assert growth_figure(curve) == ""

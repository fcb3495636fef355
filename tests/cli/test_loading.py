"""What is shown while a model loads, and the option that makes the next load faster."""

from __future__ import annotations

import io

import pytest
from typer.testing import CliRunner

import maglio
from maglio.cli import terminal
from maglio.cli.app import app
from maglio.cli.terminal import LoadProgress

GB = 10**9


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.fixture
def clock(monkeypatch):
    times = iter([0.0, 0.9, 1.1, 1.2, 1.3])
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(times))


def shown(monkeypatch, *reports, is_terminal=True):
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    with LoadProgress() as progress:
        for done in reports:
            progress(done, 5 * GB)
    return screen.getvalue()


def test_a_long_load_is_shown_after_a_second_and_the_line_is_left_empty(monkeypatch, clock):
    text = shown(monkeypatch, GB, 2 * GB, 3 * GB, 5 * GB)
    assert [line for line in text.split("\r\x1b[K") if line] == [
        "loading the model: 2.0 of 5.0 GB",
        "loading the model: 3.0 of 5.0 GB",
    ]
    assert text.endswith("\r\x1b[K")


def test_a_load_that_fails_leaves_the_line_empty_too(monkeypatch, clock):
    assert shown(monkeypatch, GB, 2 * GB).endswith("2.0 of 5.0 GB\r\x1b[K")


def test_where_there_is_no_terminal_nothing_is_shown(monkeypatch, clock):
    assert shown(monkeypatch, GB, 2 * GB, is_terminal=False) == ""


def test_the_option_keeps_the_weights(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["generate", "-p", "Count: 1, 2,", "-n", "4", "-t", "1", "--cache-weights"]
    texts = []
    for _ in range(2):
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0
        texts.append(result.stdout)
    assert len(list((tmp_path / "maglio" / "weights").iterdir())) == 1
    assert texts[0] == texts[1]
    assert maglio.load(threads=1, cache=True).engine._model.is_mapped

"""Judges policies on data sets: loads what is given, replays it, and states the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maglio.bench.data import read_dialogues
from maglio.bench.policies import Bench, Policy
from maglio.bench.replay import Tally, replay
from maglio.bench.runs_file import read_runs
from maglio.bench.stream import ModelText, TokenStream, encode_dialogue
from maglio.economics.cost import CostCurve
from maglio.errors import DataFileError

ALL = "all"
"""The group of everything in a data set."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Streams of one file.

    Attributes:
        name: of the file.
        streams: what is replayed.
        has_rows: whether the candidates of the model's rows are known. Without them, recycling
            knows only which token followed which.
    """

    name: str
    streams: tuple[TokenStream, ...]
    has_rows: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How a policy did on one group of a data set under one cost curve."""

    dataset: str
    group: str
    policy: str
    cost: str
    speedup: float
    tally: Tally

    def as_json(self) -> dict[str, Any]:
        """The result as plain values; ratios rounded to four places."""
        tally = self.tally
        rows = tally.rows_per_accepted
        return {
            "dataset": self.dataset,
            "group": self.group,
            "policy": self.policy,
            "cost": self.cost,
            "tokens": tally.tokens,
            "steps": tally.steps,
            "drafted": tally.drafted,
            "accepted": tally.accepted,
            "acceptance_rate": round(tally.acceptance_rate, 4),
            "mean_acceptance_length": round(tally.mean_acceptance_length, 4),
            "rows_per_accepted": None if rows is None else round(rows, 4),
            "speedup": round(self.speedup, 4),
        }


def load_data_set(
    path: Path, text: Callable[[], ModelText], *, limit: int | None = None
) -> DataSet:
    """Read a recording (``.npz``) or a file of conversations.

    Args:
        path: see :func:`~maglio.bench.data.read_dialogues`.
        text: returns how a model writes conversations; not called for recordings.
        limit: at most this many runs or conversations.

    Raises:
        DataFileError: it cannot be read, or there is nothing in it to draft.
    """
    if path.suffix == ".npz":
        runs = read_runs(path, limit=limit)
        return DataSet(path.name, tuple(run.stream() for run in runs), has_rows=True)
    model_text = text()
    streams = tuple(
        encode_dialogue(ALL, dialogue, model_text) for dialogue in read_dialogues(path, limit=limit)
    )
    if not any(turn.is_target for stream in streams for turn in stream.turns):
        raise DataFileError(
            f"{path} has questions only; answer them with 'maglio bench record' and replay that"
        )
    return DataSet(path.name, streams, has_rows=False)


def judge(
    data: DataSet, policies: Mapping[str, Policy], curves: Mapping[str, CostCurve], n_vocab: int
) -> list[Result]:
    """Replay a data set under every policy and cost curve.

    Returns:
        Results in the order of the curves, then the policies, then the groups, ``all`` first.
    """
    results: list[Result] = []
    blind: dict[str, dict[str, Tally]] = {}
    for cost_name, curve in curves.items():
        for name, policy in policies.items():
            tallies = blind.get(name)
            if tallies is None:
                open_source = policy.open(Bench(n_vocab, curve))
                replayed = replay(
                    data.streams,
                    open_source,
                    curve,
                    max_draft=policy.max_draft,
                    predict=policy.predicts,
                )
                tallies = _with_total(replayed)
                if not policy.uses_cost:
                    blind[name] = tallies
            for group, tally in tallies.items():
                speedup = tally.speedup(curve)
                results.append(Result(data.name, group, name, cost_name, speedup, tally))
    return results


def vocabulary_of(data: DataSet) -> int:
    """Token ids that a data set needs: one more than its largest."""
    turns = [turn for stream in data.streams for turn in stream.turns]
    arrays = [turn.tokens for turn in turns]
    arrays += [turn.candidates for turn in turns if turn.candidates is not None]
    return 1 + max(int(array.max()) for array in arrays)


def _with_total(tallies: dict[str, Tally]) -> dict[str, Tally]:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return {ALL: total, **tallies}

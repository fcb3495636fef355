"""``maglio doctor``: what this machine is, and whether an engine keeps its promise on a model."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import maglio
from maglio.cli.engine_options import EngineOptions
from maglio.cli.model_choice import ModelChoice
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import thread_count
from maglio.cli.streams import note
from maglio.doctor.examination import N_CTX, Examined, Setting, examine
from maglio.doctor.machine_facts import MachineFacts, machine_facts
from maglio.doctor.model_facts import ModelFacts, model_facts
from maglio.doctor.verdict import advice, verdict
from maglio.economics.profile import ProfileStore
from maglio.engine.trial import Trial
from maglio.errors import ModelFileError


@with_option_groups
def doctor(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="The same as --model.", show_default=False),
    ] = None,
    loading: EngineOptions,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Say what this machine is, and test an engine's promise on a model.

    The exit status is 1 if the engine promises rows that are the same to the bit and they are not,
    or if it fails.
    """
    path = _find(loading, file)
    facts = machine_facts()
    if not as_json:
        _show_machine(facts)
    if path is None:
        _end(facts, None, None, as_json=as_json)
        return
    examined = examine(
        partial(_open, loading, path),
        Setting(threads=thread_count(loading.threads), kv_cache=loading.kv_cache),
        most_threads=facts.cores,
        probed=_is_probed,
        on_trial=_show_progress,
    )
    _end(facts, examined, model_facts(path), as_json=as_json)
    if examined.broken:
        raise typer.Exit(1)


def _show_progress(trial: Trial) -> None:
    if sys.stderr.isatty():
        note(f"tried: {trial.name}, after {trial.context} tokens")


def _find(choice: ModelChoice, file: Path | None) -> Path | None:
    """The model; ``None`` if none was named and there is no default one."""
    try:
        return choice.find(file)
    except ModelFileError as error:
        if file or choice.model or choice.hf_repo:
            raise
        note(f"maglio: {error}")
        return None


def _open(loading: EngineOptions, path: Path, setting: Setting) -> maglio.Model:
    return loading.open(path, n_ctx=N_CTX, threads=setting.threads, kv_cache=setting.kv_cache)


def _is_probed(model: maglio.Model) -> bool:
    key = model.profile_key
    return key is not None and ProfileStore().load(key) is not None


def _end(
    facts: MachineFacts, examined: Examined | None, model: ModelFacts | None, *, as_json: bool
) -> None:
    hints = list(advice(facts, examined, model))
    if as_json:
        print(json.dumps(_document(facts, examined, model, hints), ensure_ascii=False))
        return
    if examined is not None:
        _show_model(facts, examined, model)
        _show_trials(examined.trials)
        print(verdict(examined))
    for hint in hints:
        print(f"- {hint}")


def _show_machine(facts: MachineFacts) -> None:
    print(f"processor   {facts.processor} ({facts.architecture})")
    print(f"            {facts.isa}, of {', '.join(facts.isas)}")
    limit = "no limit" if facts.cgroup_cores is None else f"limit {facts.cgroup_cores}"
    print(f"cores       {facts.cores} of {facts.processors} processors; control groups: {limit}")
    if facts.memory is not None:
        limit = "no limit" if facts.cgroup_memory is None else f"{_size(facts.cgroup_memory)} left"
        print(f"memory      {_size(facts.memory)} available; control groups: {limit}")
    if facts.not_measured:
        print(f"speed       not measured: {facts.not_measured}")
    if facts.memory_rate is not None:
        products = "products of bytes: not known how"
        if facts.product_rate is not None:
            products = f"{facts.product_rate / 1e9:,.0f} billion products of bytes per second"
        print(f"speed       {_size(facts.memory_rate)}/s from memory, {products}")
    print(f"versions    {', '.join(f'{name} {v}' for name, v in facts.versions.items())}")
    print(f"engines     {', '.join(facts.engines)}")


def _show_model(facts: MachineFacts, examined: Examined, model: ModelFacts | None) -> None:
    details = [examined.engine, f"promises {examined.promised}"]
    if examined.exactness != examined.promised:
        details.append(f"quick check: {examined.exactness}")
    details += [f"{examined.threads} threads"] if examined.threads else []
    details += [text for text in (examined.isa, examined.kv_cache) if text]
    if model is not None:
        print(f"model       {model.path}, {model.architecture}, {_size(model.bytes)}")
    print(f"engine      {', '.join(details)}, loaded in {examined.load_s:.1f} s")
    if model is not None and model.weight_bytes and facts.memory_rate:
        most = facts.memory_rate / model.weight_bytes
        print(f"            reading all weights {most:,.0f} times a second is the most there is")


def _show_trials(trials: tuple[Trial, ...]) -> None:
    table = Table("rows of plain decoding", box=None, pad_edge=False)
    for name in ("after", "equal", "largest difference", "other choice"):
        table.add_column(name, justify="right")
    for trial in trials:
        outcome = f"{trial.equal} of {trial.rows}", f"{trial.largest:.3g}", str(trial.flips)
        shown = ("failed", "", "") if trial.error else outcome
        table.add_row(trial.name, str(trial.context), *shown)
    Console(highlight=False, width=100).print(table)


def _document(
    facts: MachineFacts, examined: Examined | None, model: ModelFacts | None, hints: list[str]
) -> dict[str, Any]:
    return {
        "machine": asdict(facts),
        "model": None if model is None else asdict(model),
        "engine": None if examined is None else _engine(examined),
        "verdict": None if examined is None else verdict(examined),
        "advice": hints,
    }


def _engine(examined: Examined) -> dict[str, Any]:
    fields = asdict(examined)
    for trial, entry in zip(examined.trials, fields["trials"], strict=True):
        entry["bitwise"] = trial.bitwise
        entry["largest"] = trial.largest if math.isfinite(trial.largest) else None
    return {**fields, "bitwise": examined.bitwise, "broken": examined.broken}


def _size(n: float) -> str:
    return f"{n / 1e9:,.1f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"

"""``maglio probe``: what a verify step costs here, and from which acceptance rate it pays."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from maglio.cli.engine_options import EngineOptions
from maglio.cli.option_groups import with_option_groups
from maglio.economics.probe import (
    CONTEXTS,
    DRAFTS,
    REPETITIONS,
    Spread,
    VerifyCosts,
    conservative_break_even,
    measure,
    strict_break_even,
)
from maglio.economics.profile import ProfileKey, ProfileStore
from maglio.errors import InvalidArgumentError, MaglioError
from maglio.model import Model

_PLOT_WIDTH = 48


@with_option_groups
def probe(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="The same as --model.", show_default=False),
    ] = None,
    loading: EngineOptions,
    context: Annotated[
        list[int] | None,
        typer.Option(
            "--ctx-size",
            "-c",
            "--context",
            help="Context length in tokens to measure at. Repeatable. Default: "
            + ", ".join(map(str, CONTEXTS)),
            min=1,
            show_default=False,
        ),
    ] = None,
    repetitions: Annotated[
        int, typer.Option("--repetitions", "-r", help="Timings of each width.", min=2)
    ] = REPETITIONS,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Show the stored profile, measure nothing.")
    ] = False,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the stored profile, measure nothing.")
    ] = False,
) -> None:
    """Measure the cost of verify steps and keep it as this machine's profile of the model."""
    if show and clear:
        raise InvalidArgumentError("give either --show or --clear")
    contexts = sorted(set(context or CONTEXTS))
    n_ctx = contexts[-1] + 1 + DRAFTS[-1]
    loaded = loading.open(loading.find(file), n_ctx=n_ctx)
    if not loaded.engine.can_rewind:
        raise MaglioError(
            "this model cannot take tokens back, so nothing is drafted with it, and verify steps "
            "have no cost to measure"
        )
    key = loaded.profile_key
    if key is None:
        raise MaglioError(f"cannot read {loaded.path} again to tell which model it is")
    store = ProfileStore()
    notes = Console(stderr=True, highlight=False)
    if clear:
        notes.print("profile removed" if store.clear(key) else "there was no profile")
        return
    costs = store.load(key) if show else _measure(loaded, contexts, repetitions, notes)
    if costs is None:
        raise MaglioError("there is no profile of this model yet; leave out --show to measure one")
    _print(costs, key, as_json=as_json)
    if show:
        notes.print(f"profile {store.path(key)}", soft_wrap=True)
        return
    if loaded.promised == "bitwise" and not costs.bitwise:
        raise MaglioError(
            "this engine promises rows that do not depend on the batch, and just broke it: please "
            "report this with the model and the machine; the profile is not kept"
        )
    notes.print(f"profile {store.save(key, costs)}", soft_wrap=True)


def _measure(loaded: Model, contexts: list[int], repetitions: int, notes: Console) -> VerifyCosts:
    columns = (TextColumn("measuring"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("")
        return measure(
            loaded.engine,
            contexts=contexts,
            repetitions=repetitions,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _print(costs: VerifyCosts, key: ProfileKey, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_document(costs, key)))
        return
    out = Console(highlight=False)
    out.print(f"{key.engine} {key.version}, {key.threads} threads, {key.isa}")
    for at in costs.contexts:
        plain = at.plain_s
        out.print(
            f"plain step at {at.context} tokens: {1e3 * plain.median:.2f} ms "
            f"({1e3 * plain.low:.2f} to {1e3 * plain.high:.2f})"
        )
    out.print(_table(costs))
    out.print("pays from: accepted share of the draft from which the step beats plain decoding;")
    out.print("safely: the same, not counting the token that every step commits anyway")
    out.print(_plot(costs))
    out.print(_verdict(costs))


def _table(costs: VerifyCosts) -> Table:
    table = Table(title="Cost of a verify step in plain steps (half the quartile distance)")
    table.add_column("draft", justify="right")
    for at in costs.contexts:
        table.add_column(f"at {at.context}", justify="right")
    table.add_column("cost", justify="right")
    table.add_column("pays from", justify="right")
    table.add_column("safely", justify="right")
    for draft in costs.contexts[0].verify:
        cost = costs.cost(draft)
        table.add_row(
            str(draft),
            *(_with_spread(at.verify[draft]) for at in costs.contexts),
            f"{cost:.2f}",
            _percent(strict_break_even(draft, cost)),
            _percent(conservative_break_even(draft, cost)),
        )
    return table


def _with_spread(spread: Spread) -> str:
    return f"{spread.median:.2f} ±{(spread.high - spread.low) / 2:.2f}"


def _percent(acceptance: float) -> str:
    return f"{100 * acceptance:.0f}%" if acceptance <= 1.0 else "never"


def _plot(costs: VerifyCosts) -> str:
    """Bars of the cost by draft length; what is shaded is gained if every token is accepted."""
    drafts = [draft for draft in costs.contexts[0].verify if draft <= 16]
    longest = max(1 + drafts[-1], *(costs.cost(draft) for draft in drafts))
    lines = ["cost █ of 1 + draft tokens ░, in plain steps"]
    for draft in drafts:
        cost = costs.cost(draft)
        filled = round(_PLOT_WIDTH * cost / longest)
        whole = round(_PLOT_WIDTH * (1 + draft) / longest)
        lines.append(f"{draft:3d} {'█' * filled}{'░' * (whole - filled)} {cost:.2f}")
    return "\n".join(lines)


def _verdict(costs: VerifyCosts) -> str:
    if costs.bitwise:
        return f"all {costs.rows_compared} rows of verify steps were bitwise those of plain steps"
    return (
        f"{costs.rows_compared - costs.rows_equal} of {costs.rows_compared} rows of verify steps "
        "differed from those of plain steps"
    )


def _document(costs: VerifyCosts, key: ProfileKey) -> dict[str, Any]:
    return {
        **asdict(key),
        "bitwise": costs.bitwise,
        **asdict(costs),
        "costs": [
            {
                "draft": draft,
                "cost": costs.cost(draft),
                "strict_break_even": strict_break_even(draft, costs.cost(draft)),
                "conservative_break_even": conservative_break_even(draft, costs.cost(draft)),
            }
            for draft in costs.contexts[0].verify
        ],
    }

"""Time the native engine, and llama.cpp or other instruction sets beside it, on one model file.

    python benchmarks/engine.py MODEL [--vs-llama-cpp | --isas avx512 avx_vnni avx2]

Prefill of 512 tokens, plain decoding, and forwards of 2 to 32 rows, at two context lengths. All
cases of all engines are interleaved and repeated, so that a drifting machine hits them alike;
ratios are taken within a repetition. So is how fast the machine reads memory, and multiplies and
adds bytes, on as many threads: for our engine each line says what share of these it reached. The
last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile
from maglio.machine_speed import MachineSpeed, Rates
from model_work import ModelWork

ROWS = (1, 2, 4, 8, 16, 32)
PREFILL = 512


class Runner(Protocol):
    """One engine under test, with one sequence."""

    name: str

    def prefill(self, tokens: Sequence[int]) -> None:
        """Append tokens and compute the last row."""

    def forward(self, tokens: Sequence[int]) -> None:
        """Append tokens and compute every row."""

    def truncate(self, length: int) -> None:
        """Forget positions from ``length`` on."""


class NativeRunner:
    """Our engine, on the best instruction set or a named one."""

    def __init__(self, path: Path, *, n_ctx: int, threads: int, isa: str = "") -> None:
        self.name = isa or "maglio"
        if isa:
            os.environ["MAGLIO_ISA"] = isa
        self.engine = NativeEngine(ModelFile(path), n_ctx=n_ctx, threads=threads)
        self.session = Session(self.engine)

    def prefill(self, tokens: Sequence[int]) -> None:
        self.session.prefill(tokens)

    def forward(self, tokens: Sequence[int]) -> None:
        self.session.forward(tokens)

    def truncate(self, length: int) -> None:
        self.session.truncate(length)


class LlamaCppRunner:
    """llama.cpp through llama-cpp-python's low-level interface, with its default settings."""

    name = "llama.cpp"

    def __init__(self, path: Path, *, n_ctx: int, threads: int) -> None:
        import llama_cpp

        self.api = llama_cpp
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(quiet, None)
        self._keep = quiet
        model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch = n_ctx, PREFILL
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(model, params)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(PREFILL, 0, 1)
        self.length = 0

    def _decode(self, tokens: Sequence[int], first_output: int) -> None:
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self.length + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i >= first_output
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        self.api.llama_get_logits_ith(self.context, len(tokens) - 1)
        self.length += len(tokens)

    def prefill(self, tokens: Sequence[int]) -> None:
        for start in range(0, len(tokens), PREFILL):
            chunk = tokens[start : start + PREFILL]
            self._decode(chunk, len(chunk) - 1)

    def forward(self, tokens: Sequence[int]) -> None:
        self._decode(tokens, 0)

    def truncate(self, length: int) -> None:
        if not self.api.llama_memory_seq_rm(self.memory, 0, length, -1):
            raise RuntimeError("llama.cpp could not rewind")
        self.length = length


@dataclass(frozen=True, slots=True)
class Case:
    """What is timed: ``rows`` at ``context`` (prefill when ``context`` is 0)."""

    context: int
    rows: int

    @property
    def logits(self) -> int:
        """Rows whose logits are computed."""
        return self.rows if self.context else 1

    @property
    def label(self) -> str:
        if self.context == 0:
            return f"prefill {self.rows}"
        return f"{self.rows:2} row{'s' if self.rows > 1 else ' '} @ {self.context}"


def timed(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run_case(runner: Runner, case: Case, tokens: Sequence[int], times: int) -> float:
    """Seconds of one forward: the median of several in a row."""
    samples = []
    for _ in range(1 if case.context == 0 else times):
        chunk = tokens[: case.rows]
        if case.context == 0:
            samples.append(timed(lambda: runner.prefill(chunk)))  # noqa: B023 - called at once
        else:
            samples.append(timed(lambda: runner.forward(chunk)))  # noqa: B023
        runner.truncate(case.context)
    return statistics.median(samples)


def measure(
    runners: Sequence[Runner],
    contexts: Sequence[int],
    vocab: int,
    repeats: int,
    times: int,
    machine: MachineSpeed | None,
) -> tuple[dict[Case, dict[str, list[float]]], list[Rates]]:
    """Seconds of every case by engine, and the machine's rates, of each repetition."""
    rng = np.random.default_rng(1)
    tokens = [int(t) for t in rng.integers(10, vocab - 10, size=max([PREFILL, *contexts]))]
    results: dict[Case, dict[str, list[float]]] = {}
    rates: list[Rates] = []
    for repeat in range(repeats + 1):
        for context in (0, *contexts):
            for runner in runners:
                runner.truncate(0)
                if context:
                    runner.prefill(tokens[:context])
            for rows in ROWS if context else (PREFILL,):
                case = Case(context, rows)
                for runner in runners:
                    seconds = run_case(runner, case, tokens, times)
                    if repeat > 0:  # the first round warms up
                        results.setdefault(case, {}).setdefault(runner.name, []).append(seconds)
        if machine is not None and repeat > 0:
            rates.append(machine.measure())
        print(f"\rround {repeat} of {repeats}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results, rates


def ratio(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Median, minimum and maximum of a / b, pair by pair."""
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    return [round(f(ratios), 3) for f in (statistics.median, min, max)]


def shares(
    case: Case, seconds: Sequence[float], rates: Sequence[Rates], work: ModelWork
) -> dict[str, list[float]]:
    """Of the machine's rates, the median, minimum and maximum that a case reached."""
    read = work.bytes_read(case.rows, case.context, logits=case.logits)
    products = work.multiply_adds(case.rows, logits=case.logits)
    found = {}
    if rates and read is not None and case.context:
        found["memory"] = ratio([read / rate.memory for rate in rates], seconds)
    if rates and products and all(rate.multiply_adds for rate in rates):
        found["multiply_adds"] = ratio([products / rate.multiply_adds for rate in rates], seconds)
    return found


def report(
    results: dict[Case, dict[str, list[float]]],
    names: Sequence[str],
    rates: Sequence[Rates],
    work: ModelWork,
) -> dict[str, object]:
    own = names[0]
    header = f"{'':16}" + "".join(f"{name + ' ms':>14}" for name in names)
    header += f"{'of memory':>11}{'of products':>13}"
    header += f"{'plain steps':>24}" + "".join(f"{f'{name} / {own}':>26}" for name in names[1:])
    print(header)
    rows: dict[str, object] = {}
    for case, times in results.items():
        plain = results.get(Case(case.context, 1))
        line = f"{case.label:16}" + "".join(
            f"{statistics.median(times[name]) * 1e3:14.2f}" for name in names
        )
        entry: dict[str, object] = {
            name: round(statistics.median(times[name]) * 1e3, 4) for name in names
        }
        reached = shares(case, times[own], rates, work)
        for name, width in (("memory", 11), ("multiply_adds", 13)):
            share = reached.get(name)
            line += f"{'-' if share is None else f'{100 * share[0]:.0f}%':>{width}}"
        entry |= {f"of_{name}": share for name, share in reached.items()}
        if plain is not None:
            cost = entry["plain_steps"] = ratio(times[own], plain[own])
            line += f"{cost[0]:11.2f} ({cost[1]:.2f}-{cost[2]:.2f})"
        else:
            line += " " * 23
        for name in names[1:]:
            speed = entry[f"times_{name}"] = ratio(times[name], times[own])
            line += f"{speed[0]:12.2f} ({speed[1]:.2f}-{speed[2]:.2f})"
        print(line)
        rows[case.label.strip()] = entry
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--vs-llama-cpp", action="store_true", help="time llama.cpp beside it")
    beside.add_argument("--isas", nargs="+", default=[""], help="compare instruction sets")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contexts", type=int, nargs="+", default=[128, 2048])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--times", type=int, default=7, help="forwards per case and repetition")
    args = parser.parse_args()
    n_ctx = max(PREFILL, max(args.contexts) + max(ROWS))
    start = time.perf_counter()
    natives = [
        NativeRunner(args.model, n_ctx=n_ctx, threads=args.threads, isa=isa) for isa in args.isas
    ]
    load_s = (time.perf_counter() - start) / len(natives)
    runners: list[Runner] = [*natives]
    if args.vs_llama_cpp:
        runners.append(LlamaCppRunner(args.model, n_ctx=n_ctx, threads=args.threads))
    engine = natives[0].engine
    # Contexts beyond the model's own are cut to fit.
    contexts = sorted({min(c, engine.n_ctx - max(ROWS)) for c in args.contexts})
    print(f"{args.model.name}: {engine.isa}, {engine.threads} threads, loaded in {load_s:.2f} s")
    try:
        machine = MachineSpeed(engine.threads)
    except RuntimeError as error:
        machine = None
        print(f"the machine's own speed is not measured: {error}", file=sys.stderr)
    work = ModelWork.of(ModelFile(args.model), engine)
    results, rates = measure(runners, contexts, engine.n_vocab, args.repeats, args.times, machine)
    speed: dict[str, object] = {}
    if rates:
        memory = statistics.median(rate.memory for rate in rates) / 1e9
        products = statistics.median(rate.multiply_adds for rate in rates) / 1e9
        print(f"memory {memory:.1f} GB/s, {products:.0f} billion products of bytes per second")
        speed = {"memory_gb_s": round(memory, 2), "products_g_s": round(products, 1)}
    rows = report(results, [r.name for r in runners], rates, work)
    summary = {"model": args.model.name, "isa": engine.isa, "threads": engine.threads, **speed}
    print(json.dumps({**summary, "load_s": round(load_s, 3), "cases": rows}))


if __name__ == "__main__":
    main()

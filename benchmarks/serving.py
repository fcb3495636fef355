"""Time `maglio serve` beside llama.cpp's server: the same model, requests, slots and threads.

    python benchmarks/serving.py MODEL --peer PYTHON --data FOLDER

PYTHON is an interpreter that has the package xllamacpp. FOLDER holds `spec_bench_question.jsonl`
(questions) and `EditEval.jsonl` (edits, sent with the old code as `prediction`). All servers are
started first, and take turns; while one answers, the others wait. A cell is so many clients that
ask one question after another; each cell has questions of its own. The last line of stdout is one
JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import httpx

SCRIPT = Path(__file__).with_name("llama_server.py")
DRAFTS = ("ngram_simple", "ngram_map_k", "ngram_map_k4v", "ngram_mod", "ngram_cache")


class Question(NamedTuple):
    """What a client asks."""

    text: str
    prediction: str | None = None


class Answer(NamedTuple):
    """What it got."""

    tokens: int
    first_s: float


@dataclass(frozen=True, slots=True)
class Cell:
    """What one server did for so many clients."""

    tokens: int
    seconds: float
    first_s: float

    @property
    def rate(self) -> float:
        """Tokens per second, all clients together."""
        return self.tokens / self.seconds


def questions(folder: Path) -> list[Question]:
    """First turns of Spec-Bench, of all its categories by turns."""
    rows = [json.loads(line) for line in (folder / "spec_bench_question.jsonl").open()]
    step = 37  # has no factor in common with their number
    order = [rows[(step * n) % len(rows)] for n in range(len(rows))]
    return [Question(row["turns"][0][:2000]) for row in order]


def edits(folder: Path) -> list[Question]:
    """Code with an instruction, the longest first."""
    rows = [json.loads(line) for line in (folder / "EditEval.jsonl").open()]
    rows.sort(key=lambda row: -len(row["input"]))
    return [
        Question(
            f"{row['instruction']}\nAnswer with the whole code and nothing else.\n\n"
            f"```python\n{row['input']}\n```",
            f"```python\n{row['input']}\n```",
        )
        for row in rows
    ]


@contextmanager
def started(command: Sequence[str]) -> Iterator[str]:
    """Run a server; yields its address, the first word of its output that is one."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if (found := line.find("http://127.0.0.1:")) >= 0:
                Thread(target=process.stdout.read, daemon=True).start()  # or it would wait for us
                yield line[found:].split()[0].rstrip(";,").removesuffix("/v1")
                return
        raise SystemExit(f"{command[0]} ended: {process.wait()}")
    finally:
        process.terminate()
        process.wait()


async def ask(
    client: httpx.AsyncClient, url: str, question: Question, *, predicts: bool, max_tokens: int
) -> Answer:
    """Ask one question, streamed, and greedily."""
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": question.text}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if predicts and question.prediction is not None:
        body["prediction"] = {"type": "content", "content": question.prediction}
    begin, first, tokens = time.perf_counter(), 0.0, 0
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            if not first and any(c["delta"].get("content") for c in event.get("choices", [])):
                first = time.perf_counter() - begin
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    return Answer(tokens, first or time.perf_counter() - begin)


async def cell(
    url: str, asked: Sequence[Question], clients: int, *, predicts: bool, max_tokens: int
) -> Cell:
    """Let clients ask all questions, each the next one when it has its answer."""
    left = iter(asked)
    answers: list[Answer] = []

    async def run(client: httpx.AsyncClient) -> None:
        for question in left:
            answer = await ask(client, url, question, predicts=predicts, max_tokens=max_tokens)
            answers.append(answer)

    fresh = httpx.Limits(max_keepalive_connections=0)  # llama.cpp closes kept ones at will
    async with httpx.AsyncClient(timeout=600, limits=fresh) as client:
        begin = time.perf_counter()
        await asyncio.gather(*(run(client) for _ in range(clients)))
        seconds = time.perf_counter() - begin
    first = statistics.median(answer.first_s for answer in answers)
    return Cell(sum(answer.tokens for answer in answers), seconds, first)


def servers(args: argparse.Namespace, stack: ExitStack) -> dict[str, str]:
    """Start them; addresses by name."""
    common = ["--parallel", str(max(args.clients)), "--threads", str(args.threads)]
    maglio = ["-m", "maglio", "serve", "--model", str(args.model), "--port", "0"]
    options = ["--ctx-size", str(args.context), "--log-format", "off"]
    commands = {"maglio": [sys.executable, *maglio, *common, *options]}
    if args.peer is not None:
        peer = [args.peer, str(SCRIPT), str(args.model), *common, "--context", str(args.context)]
        commands |= {"llama": peer}
        commands |= {f"llama {draft}": [*peer, "--draft", draft] for draft in args.drafts}
    return {name: stack.enter_context(started(command)) for name, command in commands.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", help="an interpreter with xllamacpp; without it, Maglio alone")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", choices=("questions", "edits"), default="questions")
    parser.add_argument("--drafts", nargs="*", default=[], choices=DRAFTS, metavar="KIND")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--requests", type=int, default=32, help="of each cell")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=2048)
    args = parser.parse_args()
    supply = cycle({"questions": questions, "edits": edits}[args.work](args.data))
    cells: dict[tuple[int, str], list[Cell]] = {}
    with ExitStack() as stack:
        urls = servers(args, stack)
        for turn in range(args.rounds + 1):  # the first one warms up
            for clients in args.clients if turn else args.clients[-1:]:
                asked = list(islice(supply, args.requests))  # nobody has seen them before
                for name, url in urls.items():
                    done = asyncio.run(
                        cell(
                            url,
                            asked,
                            clients,
                            predicts=name == "maglio",
                            max_tokens=args.max_tokens,
                        )
                    )
                    if turn:
                        cells.setdefault((clients, name), []).append(done)
                    print(
                        f"round {turn} clients {clients:2} {name:20} {done.rate:7.1f} tokens/s, "
                        f"first token {1e3 * done.first_s:7.1f} ms",
                        flush=True,
                    )
    lines = [
        {
            "clients": clients,
            "server": name,
            "tokens_per_s": round(statistics.median(one.rate for one in done), 1),
            "range": [
                round(rate, 1)
                for rate in sorted(one.rate for one in done)[:: max(1, len(done) - 1)]
            ],
            "first_ms": round(1e3 * statistics.median(one.first_s for one in done), 1),
            "ahead": round(
                statistics.median(
                    ours.rate / theirs.rate
                    for ours, theirs in zip(cells[clients, "maglio"], done, strict=True)
                ),
                2,
            ),
        }
        for (clients, name), done in cells.items()
    ]
    print(json.dumps({"model": args.model.name, "work": args.work, "cells": lines}))


if __name__ == "__main__":
    main()

"""Thousands of requests of all kinds to `maglio serve`, from clients good and bad.

    PYTHONPATH=tests python benchmarks/soak.py [--requests 10000] [--model FILE]

Chats, completions and other dialects, streamed and whole, with grammars, tools, predictions and
log-probabilities; clients that leave, read slowly, close one side or send what is not HTTP; bodies
that are broken, too long or too deep; wrong keys. Every reply must be a well-formed answer or a
typed error, in time; equal requests have equal answers, however they are drafted, cached or sent.
Afterwards the server holds what it held after the warm-up, in which all that it keeps was filled to
its bound (docs/server.md states them), and SIGTERM in the middle of streams ends it in an orderly
way. The last line of stdout is one JSON document; the status is 1 if
something does not hold. Without --model, a tiny one with random weights is made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import h11
import httpx

from server_process import Held, ServerProcess
from soak_answers import MalformedError, error_code, said
from soak_requests import Question, question
from soak_wire import Reply, exchange

KEYS = ("first-key", "second-key", "third-key")
MAY_BE_SILENT = frozenset({"leave", "unfinished", "half-close"})
MOST_FAULTS = 20
GRACE_S = 20.0
WORKERS = 40
"""Threads that requests are prepared in; an idle one ends a while later."""
MARGIN_S = 15.0
"""After the grace, for streams to be told and the process to end, on a busy machine."""


@dataclass
class Soak:
    """What was asked, and what came of it."""

    args: argparse.Namespace
    server: ServerProcess
    kinds: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    longest_s: float = 0.0
    memory_mb: list[int] = field(default_factory=list)  # at every 500th request
    faults: list[str] = field(default_factory=list)
    _answers: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def fault(self, text: str) -> None:
        """Note what does not hold."""
        self.faults.append(text)
        if len(self.faults) <= MOST_FAULTS:
            print(f"\nFAULT {text}", file=sys.stderr, flush=True)

    async def run(self, first: int, count: int) -> None:
        """Ask ``count`` questions, from that of this number."""
        numbers = iter(range(first, first + count))

        async def client() -> None:
            for number in numbers:
                rng = random.Random(f"{self.args.seed} {number}")
                await self._ask(number, question(rng, KEYS, self.args.variants), rng)
                if number % 500 == 0:
                    self.memory_mb.append(self.server.held().memory >> 20)
                if number % 100 == 0:
                    now = f"{number} requests, {self.memory_mb[-1]} MB"
                    print(f"\r{now}", end="", file=sys.stderr, flush=True)

        await asyncio.gather(*(client() for _ in range(self.args.clients)))

    async def _ask(self, number: int, asked: Question, rng: random.Random) -> None:
        self.kinds[f"{asked.kind}" if asked.manner == "plain" else f"({asked.manner})"] += 1
        begin = time.perf_counter()
        sent = exchange(self.server.host, self.server.port, asked.asked, asked.manner, rng)
        try:
            reply = await asyncio.wait_for(sent, self.args.limit)
        except (TimeoutError, asyncio.TimeoutError):
            self.fault(f"{number}: {asked.kind} hangs: {asked.asked.body[:300]!r}")
            return
        except (OSError, h11.RemoteProtocolError) as error:
            self.fault(f"{number}: {asked.kind}, {asked.manner}: {error!r}")
            return
        self.longest_s = max(self.longest_s, time.perf_counter() - begin)
        try:
            self._check(number, asked, reply)
        except MalformedError as error:
            self.fault(f"{number}: {asked.kind}, {asked.manner}: {error}")

    def _check(self, number: int, asked: Question, reply: Reply | None) -> None:
        if reply is None:
            self.outcomes["no reply"] += 1
            # A body that is refused before it has all been sent resets the connection.
            if asked.manner not in MAY_BE_SILENT and 413 not in asked.statuses:
                raise MalformedError("no reply came")
            return
        self.outcomes[str(reply.status)] += 1
        if reply.status not in asked.statuses:
            raise MalformedError(f"status {reply.status}: {reply.body[:300]!r}")
        if reply.status != 200:
            error_code(reply, anthropic=asked.kind == "messages" or _is_anthropic(asked))
        elif asked.same is not None and asked.body is not None:
            if asked.manner in ("garbage", "half-close") and not reply.is_whole:
                return  # the server may give up a connection on which the client has ended
            answer = said(asked.kind, reply, streamed=asked.body["stream"])
            first, expected = self._answers.setdefault(asked.same, (f"{number}", answer))
            self.compared += first != f"{number}"
            if answer != expected:
                raise MalformedError(
                    f"{answer!r:.700} is not {expected!r:.700}, that of request {first}"
                )


def _is_anthropic(asked: Question) -> bool:
    return asked.asked.path.startswith("/v1/messages")


def idle(server: ServerProcess) -> Held:
    """What a server holds when nothing runs and all connections are closed."""
    headers = {"authorization": f"Bearer {KEYS[0]}"}
    quiet, held = 0, server.held()
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        for _ in range(600):
            lines = client.get("/metrics").text.splitlines()
            values = dict(line.split()[:2] for line in lines if line[0] != "#")
            busy = [float(values[f"maglio_requests_{one}"]) for one in ("running", "waiting")]
            before, held = held, server.held()
            quiet = quiet + 1 if not any(busy) and held.files == before.files else 0
            if quiet == 10:
                return held
            time.sleep(0.1)
    raise SystemExit(f"the server does not come to rest: {busy}, {held}")


def stop_in_the_middle(soak: Soak, n: int) -> dict[str, Any]:
    """Send SIGTERM while streams run; how they and the process ended."""
    server = soak.server
    body = {"prompt": "on and on", "stream": True, "ignore_eos": True, "max_tokens": -1}

    async def stream(client: httpx.AsyncClient, begun: asyncio.Semaphore) -> str:
        url = f"{server.url}/v1/completions"
        async with client.stream("POST", url, json=body) as answer:
            lines = [line async for line in _noted(answer.aiter_lines(), begun) if line]
        last = lines[-1].removeprefix("data: ")
        if last == "[DONE]":
            return "finished"
        return str(json.loads(last)["error"]["code"])

    async def stop() -> tuple[Counter[str], int, float]:
        headers = {"authorization": f"Bearer {KEYS[1]}"}
        begun = asyncio.Semaphore(0)
        async with httpx.AsyncClient(timeout=GRACE_S + MARGIN_S + 60, headers=headers) as client:
            tasks = [asyncio.ensure_future(stream(client, begun)) for _ in range(n)]
            for _ in range(n):
                await begun.acquire()
            begin = time.perf_counter()
            server.process.send_signal(signal.SIGTERM)
            ends = Counter(await asyncio.gather(*tasks))
            status = await asyncio.to_thread(server.process.wait, GRACE_S + MARGIN_S + 60)
            return ends, status, time.perf_counter() - begin

    ends, status, seconds = asyncio.run(stop())
    if set(ends) - {"finished", "shutting_down"}:
        soak.fault(f"streams ended with {ends} at SIGTERM")
    if status != 0:
        soak.fault(f"the status after SIGTERM is {status}")
    if seconds > GRACE_S + MARGIN_S:
        soak.fault(f"it took {seconds:.1f} s to end, with a grace of {GRACE_S:g} s")
    return {"streams": dict(ends), "status": status, "seconds": round(seconds, 1)}


async def _noted(lines: Any, begun: asyncio.Semaphore) -> Any:  # noqa: ANN401  # iterators
    is_first = True
    async for line in lines:
        if is_first:
            begun.release()
            is_first = False
        yield line


def compare(soak: Soak, before: Held, after: Held) -> None:
    """Note what grew."""
    if after.memory > 1.05 * before.memory:
        soak.fault(f"memory grew from {before.memory:,} to {after.memory:,} bytes")
    if after.files > before.files:
        soak.fault(f"open files grew from {before.files} to {after.files}")
    if after.threads > before.threads + WORKERS:
        soak.fault(f"threads grew from {before.threads} to {after.threads}")


def small_model(folder: Path) -> Path:
    """A tiny model that can chat and call tools."""
    from support.chat_model import write_chat_model

    return write_chat_model(folder / "soak.gguf")


def options(args: argparse.Namespace, model: Path) -> list[str]:
    """Of `maglio serve`."""
    keys = [part for key in KEYS for part in ("--api-key", key)]
    return [
        *("--model", str(model), "--alias", "soak", "--ctx-size", "2048", *keys),
        *("--parallel", "8", "--prefix-cache", str(args.prefix_cache), "--log-format", "off"),
        *("--grace", f"{GRACE_S:g}", "--threads", "1"),
        *(() if args.history else ("--no-history",)),
    ]


def main() -> None:
    """Soak, print, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a GGUF file with a chat template")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--warm-up", type=int, default=1_000, help="of them, before it is measured")
    parser.add_argument("--variants", type=int, default=400, help="different requests that work")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--prefix-cache", type=int, default=4, metavar="MIB")
    parser.add_argument("--history", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one request")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or small_model(Path(folder))
        with ServerProcess(options(args, model)) as server:
            soak = Soak(args, server)
            asyncio.run(soak.run(0, args.warm_up))
            warm = idle(server)
            asyncio.run(soak.run(args.warm_up, args.requests - args.warm_up))
            end = idle(server)
            compare(soak, warm, end)
            health = httpx.get(f"{server.url}/health", timeout=60).json()
            if health != {"status": "ok"}:
                soak.fault(f"/health says {health}")
            stopped = stop_in_the_middle(soak, 6)
            if errors := [line for line in server.last if "Traceback" in line]:
                soak.fault(f"the server logged {len(errors)} errors")
    print(file=sys.stderr)
    report = {
        "requests": args.requests,
        "kinds": dict(sorted(soak.kinds.items())),
        "outcomes": dict(sorted(soak.outcomes.items())),
        "compared": soak.compared,
        "longest_s": round(soak.longest_s, 1),
        "memory_mb": soak.memory_mb,
        "warm": asdict(warm),
        "end": asdict(end),
        "stopped": stopped,
        "faults": soak.faults[:MOST_FAULTS],
        "n_faults": len(soak.faults),
    }
    print(json.dumps(report))
    sys.exit(bool(soak.faults))


if __name__ == "__main__":
    main()

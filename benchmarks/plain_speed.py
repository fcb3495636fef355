"""Prefill and plain decoding of Maglio and of llama.cpp's server, on one model file.

    python benchmarks/plain_speed.py MODEL --peer PYTHON [--rounds N] [--tokens N] [--prompt N]

``PYTHON`` is an interpreter with the package xllamacpp, which brings llama.cpp built for AVX2. Both
engines get the same random token ids, take turns, and choose greedily; llama.cpp's times are those
its server states for the two phases. Ratios are taken within a round. The last line of stdout is
one JSON document. For llama.cpp built by yourself, and for forwards of several rows, use engine.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine import ratio
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.gguf import ModelFile

LLAMA_SERVER = Path(__file__).with_name("llama_server.py")


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds of one token: of the prompt, and of plain decoding after it."""

    prefill: float
    plain: float


class Maglio:
    """Our engine, with one sequence."""

    def __init__(self, path: Path, *, n_ctx: int, threads: int) -> None:
        self.engine = NativeEngine(ModelFile(path), n_ctx=n_ctx, threads=threads)
        self.session = Session(self.engine)

    def measure(self, prompt: Sequence[int], tokens: int) -> Speeds:
        self.session.truncate(0)
        begin = time.perf_counter()
        self.session.prefill(prompt)
        middle = time.perf_counter()
        for _ in range(tokens):
            rows = self.session.forward([prompt[0]])
            rows.argmax()
        end = time.perf_counter()
        return Speeds((middle - begin) / len(prompt), (end - middle) / tokens)


class LlamaServer:
    """llama.cpp's server with one slot and its default settings."""

    def __init__(self, peer: str, path: Path, *, n_ctx: int, threads: int) -> None:
        options = ["--parallel", "1", "--context", str(n_ctx), "--threads", str(threads)]
        command = [peer, str(LLAMA_SERVER), str(path), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise SystemExit("llama.cpp's server did not start")

    def measure(self, prompt: Sequence[int], tokens: int) -> Speeds:
        body = {
            "prompt": list(prompt),
            "n_predict": tokens + 1,  # the first comes with the prompt
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": False,
        }
        request = urllib.request.Request(
            f"{self.address}/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            timings = json.load(answer)["timings"]
        return Speeds(
            timings["prompt_ms"] / 1e3 / timings["prompt_n"],
            timings["predicted_ms"] / 1e3 / timings["predicted_n"],
        )

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", required=True, help="an interpreter with xllamacpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512, help="tokens before plain decoding")
    parser.add_argument("--tokens", type=int, default=24, help="tokens of plain decoding")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    n_ctx = args.prompt + args.tokens + 8
    own = Maglio(args.model, n_ctx=n_ctx, threads=args.threads)
    peer = LlamaServer(args.peer, args.model, n_ctx=n_ctx, threads=args.threads)
    rng = np.random.default_rng(1)
    ids = [int(i) for i in rng.integers(10, own.engine.n_vocab - 10, size=args.prompt)]
    rounds = []
    try:
        for number in range(args.rounds + 1):
            pair = (own.measure(ids, args.tokens), peer.measure(ids, args.tokens))
            if number:  # the first round warms up
                rounds.append(pair)
    finally:
        peer.close()
    summary: dict[str, object] = {"model": args.model.name, "isa": own.engine.isa}
    for phase in ("prefill", "plain"):
        ours = [getattr(mine, phase) for mine, _ in rounds]
        theirs = [getattr(other, phase) for _, other in rounds]
        speeds = [1 / statistics.median(seconds) for seconds in (ours, theirs)]
        ahead = ratio(theirs, ours)
        print(
            f"{args.model.name}: {phase:7} {speeds[0]:8.1f} tokens per second,"
            f" llama.cpp {speeds[1]:8.1f}: {ahead[0]:.2f} times ({ahead[1]:.2f}-{ahead[2]:.2f})",
            flush=True,
        )
        summary[phase] = {"maglio": speeds[0], "llama.cpp": speeds[1], "times": ahead}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()

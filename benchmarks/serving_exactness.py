"""Whether answers of `maglio serve` to many clients at once are those of the library alone.

    python benchmarks/serving_exactness.py --data FOLDER [--requests 100] [--max-tokens 64]

FOLDER holds `spec_bench_question.jsonl`. Its questions are asked all at once, greedily and sampled
with seeds, half of them streamed, a third with log-probabilities: of servers that draft, that do
not, whose prefix cache is so small that it evicts, and whose KV cache is rounded. Each answer is
compared, to the bit, with `Model.generate` of the same prompt ids, without drafts and with nothing
else running. The last line of stdout is one JSON document; the status is 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

import maglio
from server_process import ServerProcess
from soak_answers import Said, said
from soak_wire import Reply

SETUPS: dict[str, tuple[str, ...]] = {
    "drafting": (),
    "evicting": ("--prefix-cache", "8"),
    "plain": ("--no-spec",),
    "ungated": ("--no-gate", "--policy", "record"),
    "q8_0": ("--kv-cache", "q8_0"),
}
"""Options of servers."""
URL = "/v1/chat/completions"


class Question(NamedTuple):
    """What is asked."""

    body: dict[str, Any]
    sampling: maglio.SamplingParams

    @property
    def is_greedy(self) -> bool:
        """Whether the answer is the likeliest."""
        return self.sampling.temperature == 0.0


def questions(folder: Path, n: int, max_tokens: int) -> list[Question]:
    """First turns of Spec-Bench, of all its categories alike, each greedy and sampled."""
    rows = [json.loads(line) for line in (folder / "spec_bench_question.jsonl").open()]
    step = max(1, len(rows) // n)
    found = []
    for number, row in enumerate(rows[::step][:n]):
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": row["turns"][0][:2000]}],
            "max_tokens": max_tokens,
            "stream": number % 4 < 2,
        }
        if number % 3 == 0:
            body |= {"logprobs": True, "top_logprobs": 3}
        greedy = maglio.SamplingParams()
        sampled = maglio.SamplingParams(temperature=0.8, top_p=0.95, seed=number)
        found.append(Question(body | {"temperature": 0}, greedy))
        same = {"temperature": 0.8, "top_p": 0.95, "seed": number}
        found.append(Question(body | same, sampled))
    return found


def alone(model: maglio.Model, question: Question) -> Said:
    """What the library says, in the form of an answer."""
    body = question.body
    prompt = model.chat_template.render(body["messages"])
    generation = model.generate(
        model.chat_template.encode(prompt),
        max_tokens=body["max_tokens"],
        sampling=question.sampling,
        speculation=False,
        logprobs=body.get("top_logprobs"),
    )
    logprobs = [
        _token(model, one.token, one.logprob)
        | {"top_logprobs": [_token(model, *pair) for pair in one.top]}
        for one in generation.logprobs
        if one.token not in model.tokenizer.eog_ids  # it ends the answer, and is not a part of it
    ]
    return [[generation.text, "", [], logprobs, generation.finish_reason]]


def _token(model: maglio.Model, token: int, logprob: float) -> dict[str, Any]:
    data = model.tokenizer.token_bytes(token)
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


async def ask_all(url: str, asked: Sequence[Question]) -> list[Said]:
    """Ask everything at once."""

    async def ask(client: httpx.AsyncClient, question: Question) -> Said:
        answer = await client.post(url + URL, json=question.body)
        kind = answer.headers["content-type"].partition(";")[0]
        if answer.status_code != 200:
            raise SystemExit(f"status {answer.status_code}: {answer.text:.500}")
        reply = Reply(200, kind, answer.content, True)
        return said("chat", reply, streamed=question.body["stream"])

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:
        return list(await asyncio.gather(*(ask(client, question) for question in asked)))


def equal(
    asked: Sequence[Question], answers: Sequence[Said], expected: Sequence[Said]
) -> dict[str, str]:
    """How many answers are what they must be; those that are not are shown."""
    rows = list(zip(asked, answers, expected, strict=True))
    for question, answer, right in rows:
        if answer != right:
            print(f"NOT EQUAL {question.body!r:.300}\n  {answer!r:.400}\n  {right!r:.400}")
    counts = {}
    for name, is_greedy in (("greedy", True), ("sampled", False)):
        part = [one == right for question, one, right in rows if question.is_greedy == is_greedy]
        counts[name] = f"{sum(part)} of {len(part)}"
    return counts


def serve_options(args: argparse.Namespace, setup: str) -> Iterable[str]:
    """Of `maglio serve`."""
    model = () if args.model is None else ("--model", str(args.model))
    size = ("--ctx-size", str(args.context), "--threads", str(args.threads))
    return (*model, *size, "--log-format", "off", "--queue", "1000", *SETUPS[setup])


def main() -> None:
    """Compare, print, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="a GGUF file; the default model otherwise")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--setups", nargs="+", default=list(SETUPS), choices=list(SETUPS))
    args = parser.parse_args()
    asked = questions(args.data, args.requests, args.max_tokens)
    expected: dict[str, list[Said]] = {}
    results = {}
    for setup in args.setups:
        kv_cache = "q8_0" if setup == "q8_0" else "f16"
        if kv_cache not in expected:
            model = maglio.load(
                args.model, n_ctx=args.context, threads=args.threads, kv_cache=kv_cache
            )
            expected[kv_cache] = []
            for number, question in enumerate(asked):
                expected[kv_cache].append(alone(model, question))
                print(f"\ralone {number + 1}", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
        with ServerProcess(list(serve_options(args, setup))) as server:
            answers = asyncio.run(ask_all(server.url, asked))
            metrics = httpx.get(f"{server.url}/metrics").text
        counts = equal(asked, answers, expected[kv_cache])
        width = next(x for x in metrics.splitlines() if x.startswith("maglio_batch_width "))
        results[setup] = counts | {"streams_per_forward": round(float(width.split()[1]), 1)}
        print(f"{setup}: {results[setup]}", flush=True)
    print(json.dumps(results))
    counts = [row[name].split(" of ") for row in results.values() for name in ("greedy", "sampled")]
    sys.exit(any(equal_ones != n for equal_ones, n in counts))


if __name__ == "__main__":
    main()

"""The margin guard on the transformers engine: which streams still differ, and what it costs.

    python benchmarks/margin_guard.py [--model FOLDER] [--data FILE] [--dtypes float32,bfloat16]

For each data type and prompt, plain decoding and speculative decoding, without the guard and with
it, by turns in one process. A stream *flips* when its tokens are not those of plain decoding by the
same loaded model. Without ``--model`` the default model, SmolLM2, is converted from its GGUF file
first (by transformers, with the packages ``gguf`` and ``accelerate``). Needs the extra ``hf``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import maglio
from maglio.bench.data.reader import read_dialogues
from maglio.bench.tasks import BUILT_IN, Task
from maglio.default_model import default_model_path
from maglio.generation import Generation

KINDS = ("plain", "spec", "guarded plain", "guarded spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All streams of one data type and way of sampling.

    Attributes:
        dtype: of the model.
        sampling: ``greedy`` or ``sampled``.
        drift: largest difference of a logit that the quick check found.
        exactness: what that makes of the engine.
        streams: how many,
        tokens: and of how many tokens with the guard.
        flips: streams that were not those of plain decoding, without the guard,
        flips_left: and with it.
        recomputed: share of the tokens whose row was computed again.
        ms: milliseconds per token, by kind, as the median of the rounds.
        price: guarded over unguarded time per token, speculative.
        speedup: guarded speculative over plain.
    """

    dtype: str
    sampling: str
    drift: float
    exactness: str
    streams: int
    tokens: int
    flips: int
    flips_left: int
    recomputed: float
    ms: dict[str, float]
    price: float
    speedup: float


def converted(folder: Path) -> Path:
    """The default model as a checkpoint in a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = default_model_path()
    where = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    config = read.config
    if hasattr(config, "quantization_config"):  # the weights are not quantized any more
        del config.quantization_config
    model = type(read)(config)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
    return folder


def tasks(data: Path | None, limit: int) -> Iterator[Task]:
    """Prompts: those of the file, or the built-in ones."""
    if data is None:
        yield from BUILT_IN
        return
    for dialogue in list(read_dialogues(data))[:limit]:
        yield Task(
            group=dialogue.category, messages=dialogue.prompt, reference=dialogue.material or None
        )


def timed(model: maglio.Model, task: Task, *, spec: bool, n: int) -> tuple[Generation, float]:
    """A generation, and seconds per token after the prompt was read."""
    how = maglio.Speculation(history=False) if spec else False
    references = () if task.reference is None else (task.reference,)
    begin = perf_counter()
    out = model.generate(
        task.encode(model),
        max_tokens=n,
        sampling=task.sampling,
        speculation=how,
        references=references if spec else (),
    )
    seconds = perf_counter() - begin - out.stats.prefill_s
    return out, seconds / max(1, len(out.tokens))


def compare(
    folder: Path, dtype: str, chosen: list[Task], sampling: str, *, n: int, rounds: int
) -> Summary:
    """Run all kinds by turns."""
    loose = maglio.load(folder, engine="transformers", dtype=dtype)
    guarded = maglio.load(folder, engine="transformers", dtype=dtype, exact="guard")
    runs = {
        "plain": (loose, False),
        "spec": (loose, True),
        "guarded plain": (guarded, False),
        "guarded spec": (guarded, True),
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    flips = left = recomputed = tokens = 0
    for task in chosen:
        for again in range(rounds):
            outs = {}
            for kind in KINDS:
                model, spec = runs[kind]
                outs[kind], taken = timed(model, task, spec=spec, n=n)
                seconds[kind].append(taken)
            if again > 0:
                continue
            flips += outs["spec"].tokens != outs["plain"].tokens
            left += outs["guarded spec"].tokens != outs["guarded plain"].tokens
            recomputed += outs["guarded spec"].stats.recomputed
            tokens += len(outs["guarded spec"].tokens)
    ms = {kind: 1e3 * median(seconds[kind]) for kind in KINDS}
    assert loose.checked is not None
    return Summary(
        dtype=dtype,
        sampling=sampling,
        drift=loose.checked.drift,
        exactness=loose.engine.exactness,
        streams=len(chosen),
        tokens=tokens,
        flips=flips,
        flips_left=left,
        recomputed=recomputed / max(1, tokens),
        ms=ms,
        price=ms["guarded spec"] / ms["spec"],
        speedup=ms["plain"] / ms["guarded spec"],
    )


def show(summary: Summary) -> None:
    """Print two lines."""
    ms = ", ".join(f"{kind} {value:.1f}" for kind, value in summary.ms.items())
    print(
        f"{summary.dtype}, {summary.sampling}: quick check {summary.exactness}, drift "
        f"{summary.drift:.2g}; flips {summary.flips} of {summary.streams}, with the guard "
        f"{summary.flips_left}"
    )
    print(
        f"  {100 * summary.recomputed:.1f}% of {summary.tokens} tokens computed again; ms per "
        f"token: {ms}; price {summary.price:.3f}, speed-up over plain {summary.speedup:.2f}",
        flush=True,
    )


def main() -> None:
    """See the top of the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, help="folder of a checkpoint")
    parser.add_argument("--data", type=Path, help="a file of prompts")
    parser.add_argument("--limit", type=int, default=40, help="prompts of the file")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the summaries here too")
    options = parser.parse_args()
    chosen = list(tasks(options.data, options.limit))
    groups = {"greedy": chosen, "sampled": [task.sampled() for task in chosen]}
    summaries = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.model or converted(Path(temporary))
        for dtype in options.dtypes.split(","):
            for sampling, members in groups.items():
                summary = compare(
                    folder, dtype, members, sampling, n=options.max_tokens, rounds=options.rounds
                )
                show(summary)
                summaries.append(asdict(summary))
    if options.json is not None:
        options.json.write_text(json.dumps(summaries, indent=1) + "\n")


if __name__ == "__main__":
    main()

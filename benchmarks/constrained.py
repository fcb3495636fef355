"""Time answers that keep to a JSON schema: plain decoding against speculative decoding.

    python benchmarks/constrained.py MODEL --data FOLDER

FOLDER holds `arctic_json_mode_WikiQuestions.json`: a context, a question, and an answer with the
keys `title`, `answerable`, `answer` and `sources`. Both sides keep to the same schema and give the
same tokens, which is checked. They take turns prompt by prompt. The last line of stdout is one JSON
document.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import maglio

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 60},
        "answerable": {"type": "boolean"},
        "answer": {"type": "string", "maxLength": 300},
        "sources": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 2},
    },
    "required": ["title", "answerable", "answer", "sources"],
    "additionalProperties": False,
}


def prompts(model: maglio.Model, folder: Path, n: int) -> list[list[int]]:
    """Chat prompts that ask for the answer."""
    rows = json.loads((folder / "arctic_json_mode_WikiQuestions.json").read_text())[:n]
    texts = [
        f"{row['title']}\n\n{row['context']}\n\n{row['question']}\nAnswer in JSON with the keys "
        f'"title", "answerable", "answer" and "sources".'
        for row in rows
    ]
    template = model.chat_template
    return [template.encode(template.render([{"role": "user", "content": t}])) for t in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.0)
    args = parser.parse_args()
    model = maglio.load(args.model)
    kinds: dict[str, dict[str, Any]] = {
        "free": {"speculation": False},
        "plain": {"speculation": False, "grammar": maglio.Grammar.json_schema(SCHEMA)},
        "speculative": {"grammar": maglio.Grammar.json_schema(SCHEMA)},
    }
    done: dict[str, list[maglio.Generation]] = {kind: [] for kind in kinds}
    sampling = maglio.SamplingParams(temperature=args.temperature, seed=1)
    for number, ids in enumerate(prompts(model, args.data, args.prompts)):
        for kind, options in kinds.items():
            out = model.generate(ids, max_tokens=args.max_tokens, sampling=sampling, **options)
            done[kind].append(out)
        plain, fast = done["plain"][-1], done["speculative"][-1]
        if plain.tokens != fast.tokens:
            raise SystemExit(f"prompt {number}: the tokens differ")
    pairs = list(zip(done["plain"], done["speculative"], strict=True))[1:]  # the first warms up
    ratios = [plain.stats.decode_s / fast.stats.decode_s for plain, fast in pairs]
    per_token = {
        kind: 1e3 * sum(o.stats.decode_s for o in outs[1:]) / sum(len(o.tokens) for o in outs[1:])
        for kind, outs in done.items()
    }
    seconds = [sum(out.stats.decode_s for out in side) for side in zip(*pairs, strict=True)]
    sources: dict[str, list[int]] = {}
    for _, fast in pairs:
        for name, counts in fast.stats.sources.items():
            drafted, accepted = sources.get(name, (0, 0))
            sources[name] = [drafted + counts.drafted, accepted + counts.accepted]
    document = {
        "model": args.model.name,
        "temperature": args.temperature,
        "prompts": len(pairs),
        "tokens": sum(len(plain.tokens) for plain, _ in pairs),
        "total_ratio": round(seconds[0] / seconds[1], 3),
        "ratio_quartiles": [round(r, 3) for r in statistics.quantiles(ratios, n=4)],
        "ms_per_token": {kind: round(ms, 3) for kind, ms in per_token.items()},
        "drafted_accepted": sources,
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()

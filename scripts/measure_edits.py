"""Measure how fast edits could be, and are, by how much of the text they keep. No model.

Replays EditEval's answers as ``maglio bench replay`` does, without and with the original as
``prediction``, beside a bound: a source that always knows the longest piece of the prompt and the
answer so far which comes next, and drafts the best length of it. Native cost curve.

    python scripts/measure_edits.py EditEval.jsonl
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

from maglio.bench.judge import load_data_set, vocabulary_of
from maglio.bench.replay import Tally, replay_stream
from maglio.bench.stream import ModelText, TokenStream
from maglio.draft.registry import Setting, calibrated
from maglio.economics.cost import NATIVE_COST
from maglio.gguf import ModelFile
from maglio.native_model import read_chat_template, read_tokenizer
from maglio.sources.find import find_model
from maglio.text import ChatTemplate

LEAST_KEPT = (0.0, 0.5, 0.7, 0.9)
MAX_DRAFT = 16


def load_text() -> ModelText:
    """The tokenizer and the template of the default model."""
    file = ModelFile(find_model(None))
    tokenizer = read_tokenizer(file)
    return ModelText(tokenizer, ChatTemplate(read_chat_template(file), tokenizer))


def kept(stream: TokenStream) -> float:
    """The share of an edit and its original that are in both, in order."""
    target = stream.turns[1]
    assert target.material is not None
    return SequenceMatcher(
        None, target.material.tolist(), target.tokens.tolist(), autojunk=False
    ).ratio()


def bound(stream: TokenStream) -> Tally:
    """Copies as well as anything can that copies one piece at a time."""
    prompt, answer = (turn.tokens.tolist() for turn in stream.turns[:2])
    tally, done = Tally(), 1
    while done < len(answer):
        known, ahead = prompt + answer[:done], answer[done : done + MAX_DRAFT]
        longest = max(
            shared(known[at : at + MAX_DRAFT], ahead)
            for at, token in enumerate([*known, ahead[0]])
            if token == ahead[0]
        )
        length = max(range(longest + 1), key=lambda k: (k + 1) / NATIVE_COST.cost(k + 1))
        committed = min(length + 1, len(answer) - done)
        tally.tokens += committed
        tally.widths[1 + length] += 1
        done += committed
    return tally


def shared(a: list[int], b: list[int]) -> int:
    """How many tokens two pieces have in common at their beginnings."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def main() -> None:
    data = load_data_set(Path(sys.argv[1]), load_text)
    setting = Setting(n_vocab=vocabulary_of(data), cost=NATIVE_COST)

    def replayed(*, predict: bool) -> Callable[[TokenStream], Tally]:
        def run(stream: TokenStream) -> Tally:
            source = calibrated()(setting)
            return replay_stream(stream, source, NATIVE_COST, max_draft=MAX_DRAFT, predict=predict)

        return run

    ways = {"calibrated": replayed(predict=False), "with prediction": replayed(predict=True)}
    ways["bound"] = bound
    tallies = {name: [way(stream) for stream in data.streams] for name, way in ways.items()}
    shares = [kept(stream) for stream in data.streams]
    for least in LEAST_KEPT:
        chosen = [i for i, share in enumerate(shares) if share >= least]
        figures = []
        for name, each in tallies.items():
            total = Tally()
            for i in chosen:
                total.add(each[i])
            figures.append(f"{name} {total.speedup(NATIVE_COST):.2f}")
        print(f"at least {least:.0%} kept, {len(chosen)} edits: {', '.join(figures)}")


if __name__ == "__main__":
    main()

"""One conversation with speculation and without, by turns: an edit, a list, the list again, talk.

Run it as ``python benchmarks/conversation.py --model model.gguf``. The file to edit is in the first
message, and a reference. Both conversations must say the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median

import maglio
from maglio import GenerationStats

FILE = '''"""Areas of simple shapes."""


def rectangle_area(width, height):
    """Return the area of a rectangle."""
    return width * height


def rectangle_outline(width, height):
    """Return the outline of a rectangle."""
    return 2 * (width + height)


def print_rectangle(width, height):
    """Print what is known of a rectangle."""
    print("rectangle", width, height)
    print("area", rectangle_area(width, height))
    print("outline", rectangle_outline(width, height))
'''

MESSAGES = (
    "Add a function square_area(side) at the end of this file and print the whole file.\n\n"
    f"```python\n{FILE}```",
    "Write a short packing list for a week by the sea.",
    "Repeat the list.",
    "Why is the sky blue?",
)


def talk(model: maglio.Model, *, speculation: bool, max_tokens: int) -> maglio.Conversation:
    """Hold the conversation; it knows nothing of those before it."""
    chat = model.chat(
        references=[FILE] if speculation else [],
        speculation=maglio.Speculation(history=False) if speculation else False,
        max_tokens=max_tokens,
    )
    for message in MESSAGES:
        chat.send(message).result()
    return chat


def counts(chat: maglio.Conversation) -> list[GenerationStats]:
    """Statistics of every turn, and of all together."""
    return [turn.stats for turn in chat.turns if turn.stats is not None] + [chat.stats]


def line(name: str, ratios: list[float], plain: GenerationStats, fast: GenerationStats) -> str:
    """What a turn did."""
    by_source = ", ".join(
        f"{source} {count.accepted}/{count.drafted}" for source, count in fast.sources.items()
    )
    return (
        f"{name:10}  plain {plain.tokens_per_s:4.0f} tok/s  speculative {fast.tokens_per_s:4.0f}  "
        f"ratio {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})  "
        f"{fast.tokens_per_step:.2f} tokens per step  accepted {by_source}"
    )


def main() -> None:
    """Measure, print a line per turn, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="GGUF file; the default model otherwise")
    parser.add_argument("--max-tokens", type=int, default=160, help="per answer")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    model = maglio.load(given.model, n_ctx=4096)
    names = ("edit", "list", "list again", "talk", "all")
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for number in range(given.rounds):
        chats = {}
        for speculation in (number % 2 == 1, number % 2 == 0):
            chats[speculation] = talk(model, speculation=speculation, max_tokens=given.max_tokens)
        if chats[False].tokens != chats[True].tokens:
            raise SystemExit("the conversations differ")
        plain, fast = counts(chats[False]), counts(chats[True])
        for name, before, after in zip(names, plain, fast, strict=True):
            ratios[name].append(before.decode_s / after.decode_s)
    for name, before, after in zip(names, plain, fast, strict=True):
        print(line(name, ratios[name], before, after))
    print(json.dumps({"ratios": ratios, "answers": [turn.answer for turn in chats[True].turns]}))


if __name__ == "__main__":
    main()

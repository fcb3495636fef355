"""``maglio demo``: what drafting gains, on three questions."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from maglio.bench.scenes import MAX_TOKENS, SCENES, Comparison, Scene
from maglio.cli.demo_page import DemoPage
from maglio.cli.model_options import ModelOptions
from maglio.cli.option_groups import with_option_groups
from maglio.cli.options import ColorOption, MaxTokensOption, token_limit
from maglio.cli.streams import emit
from maglio.cli.terminal import wants_color
from maglio.errors import MaglioError
from maglio.generation import Generation
from maglio.model import Model


@with_option_groups
def demo(
    *,
    loading: ModelOptions,
    max_tokens: MaxTokensOption = MAX_TOKENS,
    color: ColorOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Restate a list, edit code and write free text, each without drafts and then with them.

    Tokens are coloured by what predicted them. At the end the speeds stand side by side, and
    whether the answers are identical.
    """
    model = loading.load()
    page = None if as_json else DemoPage(sys.stdout, color=wants_color(color, sys.stdout))
    if page is not None:
        page.begin(model.name, getattr(model.engine, "threads", None))
    comparisons = [_compare(model, scene, token_limit(max_tokens), page) for scene in SCENES]
    if page is not None:
        page.end(comparisons)
    else:
        emit(sys.stdout, json.dumps(_document(model, comparisons)) + "\n")
    if model.engine.exactness == "bitwise" and not all(c.identical for c in comparisons):
        raise MaglioError("speculative output differed from plain output; please report this")


def _compare(model: Model, scene: Scene, max_tokens: int, page: DemoPage | None) -> Comparison:
    if page is not None:
        page.ask(scene)
    prompt = scene.prompt(model)

    def answer(how: str, *, speculative: bool) -> Generation:
        stream = scene.stream(model, prompt, max_tokens=max_tokens, speculative=speculative)
        return stream.result() if page is None else page.answer(how, stream)

    plain = answer("without drafts", speculative=False)
    return Comparison(scene, plain, answer("with drafts", speculative=True))


def _document(model: Model, comparisons: list[Comparison]) -> dict[str, Any]:
    return {
        "model": model.name,
        "scenes": [
            {
                "name": comparison.scene.name,
                "instruction": comparison.scene.instruction,
                "plain": _answer(comparison.plain),
                "speculative": _answer(comparison.speculative),
                "ratio": comparison.ratio,
                "identical": comparison.identical,
            }
            for comparison in comparisons
        ],
    }


def _answer(generation: Generation) -> dict[str, Any]:
    stats = generation.stats
    return {
        "text": generation.text,
        "tokens": len(generation.tokens),
        "finish_reason": generation.finish_reason,
        "tokens_per_s": stats.tokens_per_s,
        "tokens_per_step": stats.tokens_per_step,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
    }

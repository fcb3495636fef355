"""Drafts of ours inside vLLM, on a CPU: the tokens are those without drafts, in fewer steps."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from support.vllm_engine import Crashing, Engine, Telling, ours

PROMPTS = [
    [*map(int, np.random.default_rng(seed).integers(5, 280, 12 + seed))] * 2 for seed in range(8)
]


@contextmanager
def engine(folder, drafting=None, **options):
    made = Engine(folder, drafting, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def tiny(checkpoints):
    return checkpoints.folder("llama")


@pytest.fixture(scope="module")
def plain(tiny):
    """What the tiny model says without drafts: a random model soon repeats itself."""
    with engine(tiny) as without:
        return without.generate(PROMPTS, 64)


def test_eight_requests_get_the_tokens_they_get_without_drafts(tiny, plain):
    with engine(tiny, ours()) as drafting:
        assert drafting.generate(PROMPTS, 64) == plain
        drafts = drafting.drafts
    assert drafts.accepted > 8 * 8
    assert drafts.accepted > 0.5 * drafts.drafted


def test_sampled_requests_end_and_are_drafted_for(tiny):
    with engine(tiny, ours()) as drafting:
        said = drafting.generate(PROMPTS, 48, temperature=0.7, top_p=0.9, seed=3)
        assert [len(tokens) for tokens in said] == [48] * 8
        assert drafting.drafts.drafted > 0


def test_the_context_can_be_filled(tiny, plain):
    with engine(tiny, ours(), context=96) as drafting:
        said = drafting.generate(PROMPTS[:3], 200)
    assert [len(p) + len(s) for p, s in zip(PROMPTS, said, strict=False)] == [96] * 3
    for tokens, expected in zip(said, plain, strict=False):
        assert tokens[:64] == expected[: len(tokens)]


def test_a_proposer_that_breaks_does_not_end_the_engine(tiny, plain):
    name = f"{Crashing.__module__}.{Crashing.__name__}"
    with engine(tiny, ours(proposer=name)) as drafting:
        for _ in range(2):
            assert drafting.generate(PROMPTS, 64) == plain


def test_documents_are_quoted_by_all_requests(tiny, plain, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny)
    text = "the notes that everyone may quote: the mill stands where two streams meet"
    (tmp_path / "notes.txt").write_text(text)
    ids = tokenizer.encode(text, add_special_tokens=False)
    options = {"references": [str(tmp_path / "notes.txt")], "cost": [[1, 1.0], [99, 1.0]]}
    with engine(tiny, ours(), maglio=options) as drafting:
        prompts = [[10 + i, *ids[: 8 + i]] for i in range(8)]
        drafting.generate(prompts, 2)
        assert drafting.drafts.drafted > 8  # nothing but the document goes on like this
        assert drafting.generate(PROMPTS, 64) == plain


def test_our_worker_knows_ids_and_ends(tiny, plain, tmp_path, monkeypatch):
    monkeypatch.setenv("MAGLIO_TEST_TELLING", str(tmp_path / "told"))
    name = f"{Telling.__module__}.{Telling.__name__}"
    worker = "maglio.integrations.vllm.worker.Worker"
    with engine(tiny, ours(proposer=name), worker_cls=worker) as drafting:
        lengths = [64, 8, 8, 8]
        for n in lengths:
            assert drafting.generate(PROMPTS, n) == [tokens[:n] for tokens in plain]
    told = [tuple(map(int, line.split())) for line in (tmp_path / "told").read_text().splitlines()]
    assert all(n_ids >= n_rows for n_rows, _, n_ids in told)
    assert max(known for _, known, _ in told) == 8  # of 32: those before are gone


def test_smollm2_says_the_same_with_drafts(smollm2):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    passage = (
        "The mill stands where two streams meet. Its wheel is six metres high and turns a shaft "
        "of oak with four cams, and each cam lifts the hammer once in a turn and lets it fall."
    )
    questions = [
        f"Repeat this text word for word.\n\n{passage}",
        "List the planets of the solar system, one sentence each.",
        f"Repeat this text twice.\n\n{passage[:90]}",
        "Describe a walk through a market town early on a winter morning.",
    ]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            return_dict=False,
        )
        for question in questions
    ]
    said = []
    for drafting in (None, ours()):
        with engine(smollm2, drafting, context=1024) as made:
            said.append(made.generate(prompts, 80))
            drafts = made.drafts
    assert drafts.accepted > 40
    # Rounding may decide between two tokens that are about equally probable.
    equal = sum(a == b for a, b in zip(*said, strict=True))
    assert equal >= 3
    assert "six metres high" in tokenizer.decode(said[0][0])

"""Drafts of ours inside vLLM, on a CPU: the tokens are those without drafts, in fewer steps."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from maglio.draft.reference import frozen, save_index
from support.vllm_engine import Crashing, Engine, Telling, ours

PROMPTS = [
    [*map(int, np.random.default_rng(seed).integers(5, 280, 24 + 2 * seed))] for seed in range(8)
]
OTHER = [[7, 8, 9, 250 + n] for n in range(2)]
FREE = [[1, 1.0], [200, 1.0]]  # rows of a model this small cost nothing


@contextmanager
def engine(folder, drafting=None, **options):
    made = Engine(folder, drafting, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def tiny(checkpoints):
    return checkpoints.folder("llama, heads of 32")


@pytest.fixture(scope="module")
def plain(tiny):
    """What the tiny model says without drafts."""
    with engine(tiny) as without:
        return without.generate(PROMPTS, 64)


def test_eight_requests_get_the_tokens_they_get_without_drafts(tiny, plain):
    with engine(tiny, ours(), maglio={"cost": FREE}) as drafting:
        assert drafting.generate(PROMPTS, 64) == plain
        drafting.generate(OTHER, 40)  # meanwhile the others are forgotten, and become history
        before = drafting.drafts
        assert drafting.generate(PROMPTS, 64) == plain
        drafts = drafting.drafts.since(before)
        assert drafts.accepted > 8 * 40
        assert drafts.accepted > 0.8 * drafts.drafted
        # Sampled, and to the end of the context: nothing breaks.
        sampled = drafting.generate(PROMPTS, 48, temperature=0.7, top_p=0.9, seed=3)
        assert [len(tokens) for tokens in sampled] == [48] * 8
        whole = drafting.generate(PROMPTS, 999, ignore_eos=True)
        assert [len(p) + len(said) for p, said in zip(PROMPTS, whole, strict=True)] == [256] * 8
        assert [said[:64] for said in whole] == plain


def test_a_proposer_that_breaks_does_not_end_the_engine(tiny, plain):
    name = f"{Crashing.__module__}.{Crashing.__name__}"
    with engine(tiny, ours(proposer=name)) as drafting:
        for _ in range(2):
            assert drafting.generate(PROMPTS, 64) == plain


def test_our_worker_knows_ids_and_documents_serve_all(tiny, plain, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("what is text is encoded with vLLM's tokenizer")
    index = frozen([token for tokens in plain for token in tokens])
    save_index(index, tmp_path / "said.maglio", fingerprint="of the tiny tokenizer")
    references = [str(tmp_path / name) for name in ("notes.txt", "said.maglio")]
    monkeypatch.setenv("MAGLIO_TEST_TELLING", str(tmp_path / "told"))
    name = f"{Telling.__module__}.{Telling.__name__}"
    worker = "maglio.integrations.vllm.worker.Worker"
    options = {"references": references, "cost": FREE, "history_tokens": 0}
    with engine(tiny, ours(proposer=name), maglio=options, worker_cls=worker) as drafting:
        for n in (64, 8, 8):
            assert drafting.generate(PROMPTS, n) == [tokens[:n] for tokens in plain]
        assert drafting.drafts.accepted > 8 * 40
    told = [tuple(map(int, line.split())) for line in (tmp_path / "told").read_text().splitlines()]
    assert all(n_ids == n_rows for n_rows, _, n_ids in told)
    assert max(known for _, known, _ in told) == 8  # of 24: those before are gone


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

"""The promises on trained models: the row law, and speculation that cannot be seen."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import maglio
from maglio.draft.registry import calibrated, record
from maglio.engine.session import Session
from support.prompts import hundred_prompts
from support.real_models import NAMES, real_model_path
from support.tiny import ISAS, load_on

NEW_TOKENS = {"smollm2-135m": 24, "gemma3-270m": 16}
GREEDY = maglio.SamplingParams()
SAMPLED = maglio.SamplingParams(
    temperature=0.8,
    top_k=40,
    top_p=0.95,
    min_p=0.05,
    repeat_penalty=1.1,
    frequency_penalty=0.1,
    presence_penalty=0.1,
    penalty_last_n=64,
    seed=5,
)


@functools.cache
def model(name: str) -> maglio.Model:
    return maglio.load(real_model_path(name), n_ctx=1024)


def text_tokens(name: str, n: int) -> list[int]:
    return model(name).tokenizer.encode("\n".join(hundred_prompts()))[:n]


SOURCES = {"record": record(), "calibrated": calibrated(recycling=True)}


@pytest.mark.parametrize("policy", SOURCES)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_prompts_decode_alike_with_speculation_and_without(name, sampling, policy):
    # Each combination takes every fourth prompt, so that all see all kinds.
    first = 2 * (policy == "calibrated") + (sampling is SAMPLED)
    prompts = hundred_prompts()[first::4]
    speculation = maglio.Speculation(source=SOURCES[policy])
    reference = "\n".join(hundred_prompts()[:20])
    options = {"max_tokens": NEW_TOKENS[name], "sampling": sampling}
    plain = [model(name).generate(prompt, speculation=False, **options) for prompt in prompts]
    drafting = {"speculation": speculation, "references": [reference], **options}
    alone = [model(name).generate(prompt, **drafting) for prompt in prompts]
    together = model(name).generate_many(prompts, max_parallel=8, **drafting)
    for fast in (alone, together):
        for prompt, one, other in zip(prompts, plain, fast, strict=True):
            assert other.tokens == one.tokens, prompt
            assert other.text == one.text
            assert other.finish_reason == one.finish_reason
        assert sum(each.stats.drafted for each in fast) > 0


def test_a_cache_in_8_bits_hides_speculation_too():
    coded = maglio.load(real_model_path("smollm2-135m"), n_ctx=1024, kv_cache="q8_0")
    prompts = hundred_prompts()[::8]
    options = {"max_tokens": 24, "sampling": SAMPLED}
    plain = [coded.generate(prompt, speculation=False, **options) for prompt in prompts]
    drafting = {"speculation": maglio.Speculation(source="record"), **options}
    alone = [coded.generate(prompt, **drafting) for prompt in prompts]
    together = coded.generate_many(prompts, max_parallel=4, **drafting)
    tokens = [out.tokens for out in plain]
    assert [out.tokens for out in alone] == tokens
    assert [out.tokens for out in together] == tokens
    assert sum(out.stats.drafted for out in alone) > 0


@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_depend_on_chunks_or_rewinds(name):
    tokens = text_tokens(name, 700)  # beyond Gemma's window of 512
    whole = model(name).session().forward(tokens)
    rng = np.random.default_rng(3)
    session = model(name).session()
    at = 0
    while at < len(tokens):
        width = int(rng.integers(1, 65))
        rows = session.forward(tokens[at : at + width])
        assert np.array_equal(rows.view(np.uint32), whole[at : at + width].view(np.uint32))
        keep = int(rng.integers(1, len(rows) + 1))
        at += keep
        session.truncate(at)


@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_depend_on_threads_or_instruction_set(name):
    tokens = text_tokens(name, 80)
    whole = model(name).session().forward(tokens)
    for isa in (isa for isa in ISAS if isa != "portable"):  # which takes a minute
        for threads in (1, 2):
            engine = load_on(isa, real_model_path(name), n_ctx=128, threads=threads)
            rows = Session(engine).forward(tokens)
            assert np.array_equal(rows.view(np.uint32), whole.view(np.uint32)), (isa, threads)


def test_a_portable_row_of_smollm2_is_the_same():
    tokens = text_tokens("smollm2-135m", 4)
    engine = load_on("portable", real_model_path("smollm2-135m"), n_ctx=64, threads=2)
    whole = model("smollm2-135m").session().forward(tokens)
    assert np.array_equal(Session(engine).forward(tokens).view(np.uint32), whole.view(np.uint32))


def test_a_repeated_passage_takes_few_steps():
    sentence = "The trip hammer falls on the glowing iron, and the smith turns the bar before "
    fixed = maglio.Speculation(source="record", gate=False)  # the same on a busy machine
    out = model("smollm2-135m").generate(
        (sentence + "the next blow. ") * 6, max_tokens=256, speculation=fixed
    )
    assert len(out.tokens) == 256
    assert out.stats.tokens_per_step > 4


def test_a_short_prompt_touches_little_of_a_long_cache():
    program = """
        import resource, sys
        from pathlib import Path
        import maglio

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

        model = maglio.load(sys.argv[1], n_ctx=8192, threads=1)
        model.session().prefill(list(range(100, 116)))
        session, before = model.session(), resident()
        session.prefill(list(range(100, 116)))
        print(resident() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(real_model_path("smollm2-135m"))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 20e6  # of 188 MB

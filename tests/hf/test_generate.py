"""Drafting inside ``model.generate``: the tokens are those it gives alone."""

from __future__ import annotations

import pytest
import torch
import transformers

from maglio import Speculation
from maglio.economics.cost import FLAT_COST
from maglio.errors import InvalidArgumentError
from maglio.integrations.transformers import maglio_generate

PROMPT = torch.tensor([[5, 6, 7, 8, 9, 5, 6, 7, 11, 12] * 3])
HOW = Speculation(gate=False, history=False, cost=FLAT_COST)
CASES = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True},
    "filtered": {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.01},
    "penalised": {"do_sample": True, "repetition_penalty": 1.3},
    "no n-gram twice": {"do_sample": False, "no_repeat_ngram_size": 3, "min_new_tokens": 5},
    "biased": {"do_sample": False, "sequence_bias": {(7,): 4.0, (8, 9): 3.0}},
}


class Forwards:
    """Counts what a model computes."""

    def __init__(self, model) -> None:
        self.rows = []
        self._hook = model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _model, _inputs, named):
        self.rows.append(named["input_ids"].shape[1])

    def close(self) -> int:
        self._hook.remove()
        return len(self.rows)


def generate(model, seed=3, **options):
    torch.manual_seed(seed)
    return model.generate(PROMPT, max_new_tokens=40, **options)


@pytest.mark.parametrize(
    ("family", "case"),
    [
        *(("llama", case) for case in CASES),
        *((family, case) for family in ("qwen3", "gemma3") for case in ("greedy", "filtered")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_tokens_are_those_of_generate(checkpoints, family, dtype, case):
    model = checkpoints.model(family, dtype)
    plain = generate(model, **CASES[case])
    forwards = Forwards(model)
    drafted = generate(
        model,
        **CASES[case],
        custom_generate=maglio_generate,
        speculation=HOW,
        references=[plain[0].tolist()],
    )
    assert drafted.tolist() == plain.tolist()
    assert forwards.close() < 20  # of 40 tokens


def test_without_drafts_it_is_generate_too(checkpoints):
    model = checkpoints.model("qwen3.5")  # of which nothing can be taken back
    assert generate(model, custom_generate=maglio_generate).tolist() == generate(model).tolist()
    model = checkpoints.model("llama")
    forwards = Forwards(model)
    generate(model, custom_generate=maglio_generate, speculation=False)
    assert forwards.close() == 40


def test_an_end_within_a_draft_ends_it(checkpoints):
    model = checkpoints.model("llama")
    plain = generate(model, do_sample=False)
    end = int(plain[0, PROMPT.shape[1] + 20])
    stopped = generate(model, do_sample=False, eos_token_id=end, pad_token_id=0)
    options = {"custom_generate": maglio_generate, "speculation": HOW}
    drafted = generate(
        model,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=0,
        references=[plain[0].tolist()],
        **options,
    )
    assert drafted.tolist() == stopped.tolist()
    assert drafted[0, -1] == end


def test_the_random_numbers_after_it_are_the_same(checkpoints):
    model = checkpoints.model("llama", torch.float64)
    plain = generate(model, do_sample=True)
    after = torch.rand(1)
    generate(
        model,
        do_sample=True,
        custom_generate=maglio_generate,
        speculation=HOW,
        references=[plain[0].tolist()],
    )
    assert torch.equal(torch.rand(1), after)


def test_stopping_criteria_end_it(checkpoints):
    model, tokenizer = checkpoints.model("llama"), checkpoints.tokenizer()

    class AtSeven(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **_):
            return torch.tensor([input_ids.shape[1] >= PROMPT.shape[1] + 7])

    criteria = transformers.StoppingCriteriaList([AtSeven()])
    drafted = generate(model, custom_generate=maglio_generate, stopping_criteria=criteria)
    assert drafted.shape[1] == PROMPT.shape[1] + 7
    plain = generate(model, do_sample=False)
    text = next(
        piece
        for token in plain[0, PROMPT.shape[1] + 9 :].tolist()
        if (piece := tokenizer.decode([token])).isascii() and piece.isprintable() and piece
    )
    stops = transformers.StopStringCriteria(tokenizer, [text])
    options = {"do_sample": False, "stopping_criteria": [stops]}
    expected = generate(model, **options)
    assert expected.shape[1] < plain.shape[1]
    assert generate(model, **options, custom_generate=maglio_generate).tolist() == expected.tolist()


def test_a_streamer_gets_the_prompt_and_every_token(checkpoints):
    class Kept(transformers.generation.BaseStreamer):
        def __init__(self):
            self.puts, self.ended = [], False

        def put(self, value):
            self.puts.append(value)

        def end(self):
            self.ended = True

    theirs, ours = Kept(), Kept()
    model = checkpoints.model("llama")
    generate(model, do_sample=False, streamer=theirs)
    generate(model, do_sample=False, custom_generate=maglio_generate, text_streamer=ours)
    assert [put.tolist() for put in ours.puts] == [put.tolist() for put in theirs.puts]
    assert ours.ended


def test_scores_and_logits_are_returned(checkpoints):
    model = checkpoints.model("llama", torch.float64)
    options = {
        "do_sample": False,
        "repetition_penalty": 1.3,
        "return_dict_in_generate": True,
        "output_scores": True,
        "output_logits": True,
    }
    plain = generate(model, **options)
    drafted = generate(
        model,
        **options,
        custom_generate=maglio_generate,
        speculation=HOW,
        references=[plain.sequences[0].tolist()],
    )
    assert drafted.sequences.tolist() == plain.sequences.tolist()
    for name in ("scores", "logits"):
        ours, theirs = torch.cat(drafted[name]), torch.cat(plain[name])
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 2}, "num_beams is 2"),
        ({"num_return_sequences": 2, "do_sample": True}, "num_return_sequences is 2"),
        ({"prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens is 3"),
        ({"use_cache": False}, "use_cache is False"),
        ({"cache_implementation": "static"}, "cache_implementation is 'static'"),
        (
            {"output_attentions": True, "return_dict_in_generate": True},
            "output_attentions is True",
        ),
        ({"attention_mask": torch.tensor([[0] * 2 + [1] * 28])}, "attention_mask has zeros"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_had_is_refused(checkpoints, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        generate(checkpoints.model("llama"), custom_generate=maglio_generate, **options)


def test_several_prompts_are_refused(checkpoints):
    with pytest.raises(InvalidArgumentError, match="one at a time"):
        checkpoints.model("llama").generate(
            PROMPT.repeat(2, 1), max_new_tokens=3, custom_generate=maglio_generate
        )

"""Real conversations with SmolLM2."""

from __future__ import annotations

import pytest

import maglio

SAMPLED = maglio.SamplingParams(temperature=0.8, top_k=40, top_p=0.95, repeat_penalty=1.1, seed=4)
POEM = "Roses are red,\nViolets are blue,\nSugar is sweet,\nAnd so are you."


def converse(chat):
    said = [chat.send("Repeat this poem exactly:\n" + POEM).result()]
    chat.add_reference(POEM)
    said += [chat.send(text).result() for text in ("Once more.", "In capitals, <|im_end|> please")]
    chat.undo()
    said.append(chat.retry().result())
    chat.clear_references()
    answer = chat.send("Now tell me about yourself.")
    for _ in range(5):
        next(answer)
    answer.close()
    said.append(chat.edit(1, "Which colours does it name?").result())
    return said, chat.tokens, chat.position


@pytest.mark.parametrize("sampling", [maglio.SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("stop", [(), ("blue", ".\n")])
def test_a_conversation_is_the_same_with_and_without_speculation(smollm2, sampling, stop):
    options = {"sampling": sampling, "stop": stop, "max_tokens": 48}
    plain = converse(smollm2.chat(speculation=False, **options))
    chat = smollm2.chat(speculation=maglio.Speculation(gate=False), **options)
    assert converse(chat) == plain
    assert chat.stats.accepted > 0

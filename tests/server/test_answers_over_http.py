"""A real model, many clients at once: each answer is, to the bit, that of the library alone.

A small run of ``benchmarks/serving_exactness.py``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import maglio
from support.http_server import Running

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
serving_exactness = pytest.importorskip("serving_exactness")

PROMPTS = (
    "Name three planets.",
    "What is 12 times 9?",
    "Name three planets, and say one thing of each.",
    'Put this into JSON: name Anna, age 30.\n\n{"name": "Bob", "age": 41}',
    "Repeat: the cat sat on the mat, the cat sat on the mat, the cat",
    "Why is the sky blue?",
)


def questions() -> list[serving_exactness.Question]:
    found = []
    for number, prompt in enumerate(PROMPTS):
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 16}
        body["stream"] = number % 2 == 0
        if number % 3 == 0:
            body |= {"logprobs": True, "top_logprobs": 2}
        greedy, sampled = {"temperature": 0.0}, {"temperature": 0.8, "seed": number}
        found += [
            serving_exactness.Question(body | how, maglio.SamplingParams(**how))
            for how in (greedy, sampled)
        ]
    return found


def test_answers_to_many_clients_are_those_of_the_library_alone(smollm: Running) -> None:
    asked = questions()
    expected = [serving_exactness.alone(smollm.model, question) for question in asked]
    answers = asyncio.run(serving_exactness.ask_all(smollm.url, asked))
    assert answers == expected
    assert len({str(answer) for answer in answers}) > len(PROMPTS)  # sampling makes a difference

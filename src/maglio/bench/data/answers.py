"""Questions with one recorded answer each: edits, code, maths, JSON answers, function calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from maglio.bench.data.dialogue import Dialogue, exchange
from maglio.bench.data.fields import Record


def read_edit(record: Record) -> Dialogue:
    """EditEval: code, an instruction, and the code after the edit."""
    code = record.text("input")
    question = f"{record.text('instruction').strip()}\n\n{code}"
    return exchange("edit", question, record.text("output"), material=code)


def read_completion(record: Record) -> Dialogue:
    """HumanEval: the head of a function, and its body."""
    return exchange("completion", record.text("prompt"), record.text("canonical_solution"))


def read_maths(record: Record) -> Dialogue:
    """GSM8K: a word problem and a worked answer."""
    return exchange("maths", record.text("question"), record.text("answer"))


def read_json_answer(record: Record) -> Dialogue:
    """ArcticInference's JSON mode: a context, a question, and an answer with fixed keys."""
    question = (
        f"{record.text('title')}\n\n{record.text('context')}\n\n{record.text('question')}\n"
        'Answer in JSON with the keys "answerable" and "answer".'
    )
    answerable = record.value.get("answerable")
    if not isinstance(answerable, bool):
        raise record.error("'answerable' is neither true nor false")
    answer = {"answerable": answerable, "answer": record.text("answer")}
    return exchange("json", question, json.dumps(answer, ensure_ascii=False))


def read_function_call(record: Record, answer: Record) -> Dialogue:
    """BFCL: functions that can be called, a request, and the call, from the answer file."""
    request = record.items("question")[0]
    if not isinstance(request, list) or not request or not isinstance(request[0], dict):
        raise record.error("'question' holds no message")
    functions = json.dumps(record.items("function"), ensure_ascii=False)
    text = Record(request[0], f"{record.where}, question[0]").text("content")
    calls = [_call(truth) for truth in answer.records("ground_truth")]
    return exchange("call", f"{functions}\n\n{text}", json.dumps(calls, ensure_ascii=False))


def _call(truth: Record) -> Mapping[str, Any]:
    """The call that the ground truth allows, with the first value that every argument may have."""
    for name, arguments in truth.value.items():
        if not isinstance(arguments, dict):
            break
        first = {key: values[0] for key, values in arguments.items() if _given(values)}
        return {"name": name, "arguments": first}
    raise truth.error("this is not a call")


def _given(values: object) -> bool:
    # An empty string stands for an argument that may be left out.
    return isinstance(values, list) and len(values) > 0 and values[0] != ""

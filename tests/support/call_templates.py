"""Chat templates that write calls in the formats of model families, made for the tests.

Each writes a generation prompt, thoughts, calls with their arguments, and what tools there are.
"""

from __future__ import annotations

import re

import numpy as np

from maglio.text import from_metadata
from support.chat_model import vocabulary

_TURNS = """{% if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}THINK_BEGIN{{ m.reasoning_content }}THINK_END

{% endif %}{{ m.content or '' }}{% if m.tool_calls %}CALLS{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
OPENED{% endif %}"""


def _template(calls: str, *, think: tuple[str, str] = ("", ""), opened: str = "") -> str:
    text = _TURNS.replace("CALLS", calls).replace("OPENED", opened)
    return text.replace("THINK_BEGIN", think[0]).replace("THINK_END", think[1])


def _each(call: str, between: str = "\n") -> str:
    glue = f"{{% if not loop.first %}}{{{{ {between!r} }}}}{{% endif %}}" if between else ""
    return (
        "{% for call in m.tool_calls %}{% set f = call.function %}"
        + glue + call + "{% endfor %}"
    )  # fmt: skip


_JSON = '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
_PAIRS = "{% for k, v in f.arguments | items %}"
_BARE = "{{ v if v is string else v | tojson }}"
_GEMMA = (
    "{% macro say(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}"
    "{% for k, w in v | dictsort %}{{ k }}:{{ say(w) }}{% if not loop.last %},{% endif %}"
    "{% endfor %}{{ '}' }}{% elif v is sequence %}[{% for w in v %}{{ say(w) }}"
    "{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}"
    "{% endmacro %}"
)  # fmt: skip

TEMPLATES = {
    "hermes": _template(
        _each("<tool_call>\n" + _JSON + "\n</tool_call>"), think=("<think>\n", "\n</think>")
    ),
    "qwen3-coder": _template(
        _each(
            "<tool_call>\n<function={{ f.name }}>\n" + _PAIRS + "<parameter={{ k }}>\n"
            + _BARE + "\n</parameter>\n{% endfor %}</function>\n</tool_call>"
        ),
        think=("<think>\n", "\n</think>"),
        opened="<think>\n",
    ),
    "seed-oss": _template(
        _each(
            "<seed:tool_call>\n<function={{ f.name }}>\n" + _PAIRS + "<parameter={{ k }}>"
            + _BARE + "</parameter>\n{% endfor %}</function>\n</seed:tool_call>"
        ),
        think=("<seed:think>", "</seed:think>"),
    ),
    "glm": _template(
        _each(
            "<tool_call>{{ f.name }}\n" + _PAIRS + "<arg_key>{{ k }}</arg_key>\n<arg_value>"
            + _BARE + "</arg_value>\n{% endfor %}</tool_call>"
        ),
        think=("<think>", "</think>"),
    ),
    "gemma4": _GEMMA + _template(
        _each("<|tool_call>call:{{ f.name }}{{ say(f.arguments) }}<tool_call|>", between=""),
        think=("<|channel>thought\n", "\n<channel|>"),
    ),
    "harmony": "{% if tools %}<|start|>developer<|message|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% for m in messages %}<|start|>{% if m.tool_calls %}assistant to=functions."
    "{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
    "{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{% else %}{{ m.role }}<|message|>"
    "{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}",
    "mistral-named": _template(
        _each("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}", between=""),
        think=("[THINK]", "[/THINK]"),
    ),
    "mistral": _template("[TOOL_CALLS][" + _each(_JSON, between=", ") + "]"),
    "lfm2": _template(
        "<|tool_call_start|>["
        + _each(
            "{{ f.name }}(" + _PAIRS + "{{ k }}={% if v is string %}'{{ v | replace('\\\\', "
            "'\\\\\\\\') | replace(\"'\", \"\\\\'\") | replace('\\n', '\\\\n') }}'{% else %}"
            "{{ v | tojson }}{% endif %}{% if not loop.last %}, {% endif %}{% endfor %})",
            between=", ",
        )
        + "]<|tool_call_end|>"
    ),
    "kimi-k2": _template(
        "<|tool_calls_section_begin|>"
        + _each(
            "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}"
            "<|tool_call_argument_begin|>{{ f.arguments | tojson }}<|tool_call_end|>",
            between="",
        )
        + "<|tool_calls_section_end|>"
    ),
    "minimax-m2": _template(
        "<minimax:tool_call>\n"
        + _each(
            '<invoke name="{{ f.name }}">\n' + _PAIRS + '<parameter name="{{ k }}">'
            + _BARE + "</parameter>\n{% endfor %}</invoke>\n",
            between="",
        )
        + "</minimax:tool_call>"
    ),
    "functionary-3.1": _template(
        _each("<function={{ f.name }}>{{ f.arguments | tojson }}</function>", between="")
    ),
    "cohere": _template(
        "<|START_ACTION|>{{ '[\\n    ' }}"
        + _each(
            '{"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ f.name }}", '
            '"parameters": {{ f.arguments | tojson }}}',
            between=",\n    ",
        )
        + "{{ '\\n]' }}<|END_ACTION|>",
        think=("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    "apriel": _template("<tool_calls>[" + _each(_JSON, between=", ") + "]</tool_calls>"),
    "llama3": _template(
        _each('{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}', between="; ")
    ),
}  # fmt: skip
"""By the name of the format."""

REAL = {
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen3-coder",
    "Qwen3.5-4B": "qwen3-coder",
    "ByteDance-Seed-OSS": "seed-oss",
    "GLM-4.6": "glm",
    "GLM-4.7-Flash": "glm-4.7",
    "google-gemma-4-31B-it": "gemma4",
    "openai-gpt-oss-120b": "harmony",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral-named",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral-named",
    "LFM2-8B-A1B": "lfm2",
    "LFM2.5-8B-A1B": "lfm2",
    "Kimi-K2-Instruct": "kimi-k2",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "hermes",
    "MiniMax-M2": "minimax-m2",
    "meetkai-functionary-medium-v3.1": "functionary-3.1",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere",
    "unsloth-Apriel-1.5": "apriel",
    "NVIDIA-Nemotron-Nano-v2": "nemotron-nano-2",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen3-coder",
    "MiniMax-M1": "minimax-m1",
    "GigaChat3.1-10B-A1.8B": "gigachat-3.1",
    "openbmb-MiniCPM5-1B": "minicpm5",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3",
    "google-gemma-2-2b-it": "hermes",
}
"""llama.cpp's templates, and their formats."""

ONE_CALL = frozenset({"harmony"})
"""Formats that have one call in an answer."""

_HARMONY = ("<|end|>", "<|constrain|>", "<|return|>", "<|call|>")
_NAMES = re.compile(r"<[|/a-z][^<>\n{}'\" =]{0,40}>|\[/?[A-Z_]{2,30}\]|<\|\"\|>")


def tokenizer_of(source: str, *, control: bool):
    """A tokenizer of bytes and pairs in which the template's tags are control tokens, or none."""
    values = vocabulary()
    ends = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    tags = sorted({*_NAMES.findall(source), *_HARMONY} - {*ends})
    tokens = [*values["tokenizer.ggml.tokens"][:297], *ends, *(tags if control else ())]
    kinds = np.array([1] * 297 + [3] * (len(tokens) - 297), np.int32)
    special = {"tokenizer.ggml.bos_token_id": 299, "tokenizer.ggml.eos_token_id": 298}
    return from_metadata(
        {**values, **special, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}
    )

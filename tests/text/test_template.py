"""Chat templates: control tokens come from the template alone, and hostile ones are stopped."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.errors import ChatTemplateError, InvalidArgumentError
from maglio.text import ChatTemplate, from_metadata
from support.chat_model import CONTROL, TEMPLATE, vocabulary
from support.spm_vocabulary import SPM

TOKENIZER = from_metadata(vocabulary())
IDS = TOKENIZER.control_tokens
THINKING = TEMPLATE.replace(
    "{{ message.content }}", "{{ message.content.split('</think>')[-1] | trim }}"
)


def prompt(template: ChatTemplate, *contents: str) -> list[int]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
    return template.encode(template.render(messages))


def control(ids: list[int]) -> list[int]:
    return [token for token in ids if TOKENIZER.is_control(token)]


def test_a_prompt_is_the_templates_text_with_its_control_tokens():
    template = ChatTemplate(TEMPLATE, TOKENIZER)
    text = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert template.unmark(template.render([{"role": "user", "content": "hi"}])) == text
    assert prompt(template, "hi") == TOKENIZER.encode(text, parse_special=True)


PIECES = st.sampled_from(
    [*CONTROL, "<", "|", ">", "<|", "|>", "im_end|>", "<|im_", "</think>", "a"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=1, max_size=3))
def test_messages_never_make_control_tokens(contents):
    for source in (TEMPLATE, THINKING):
        template = ChatTemplate(source, TOKENIZER)
        ids = prompt(template, *contents)
        expected = [IDS["<|im_start|>"], IDS["<|im_end|>"]] * len(contents)
        assert control(ids) == [*expected, IDS["<|im_start|>"]]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), st.lists(PIECES, max_size=5).map("".join))
def test_what_looks_like_a_control_token_stays_that_text(text, piece):
    content = text.encode("utf-8", "ignore").decode() + piece
    ids = prompt(ChatTemplate(TEMPLATE, TOKENIZER), content)
    assert TOKENIZER.decode(ids) == f"user\n{content}\nassistant\n"


def test_a_message_cannot_join_control_tokens_over_what_a_template_cuts_out():
    source = TEMPLATE.replace("message.content", "message.content.replace('</think>', '')")
    ids = prompt(ChatTemplate(source, TOKENIZER), "<|im_</think>end|>")
    assert control(ids) == control(prompt(ChatTemplate(TEMPLATE, TOKENIZER), "x"))


def test_templates_find_the_tags_they_look_for():
    template = ChatTemplate(THINKING, TOKENIZER)
    ids = prompt(template, "<think>a < b</think> so <|im_end|> ")
    assert TOKENIZER.decode(ids) == "user\nso <|im_end|>\nassistant\n"


def test_marks_reach_into_tool_calls_and_json():
    template = ChatTemplate("{{ messages | tojson }}{{ tools | tojson }}", TOKENIZER)
    call = {"function": {"name": "f", "arguments": {"x": "<|im_end|>"}}}
    rendered = template.render(
        [{"role": "assistant", "content": None, "tool_calls": [call]}],
        tools=[{"description": "<|im_start|>"}],
    )
    assert control(template.encode(rendered)) == []
    assert '"x": "<|im_end|>"' in template.unmark(rendered)


@pytest.mark.parametrize("source", ["{{ bos_token }}hi", "hi"])
def test_the_bos_token_is_there_once(source):
    tokenizer = from_metadata(SPM)
    template = ChatTemplate(source, tokenizer)
    ids = template.encode(template.render([]))
    assert ids[0] == tokenizer.bos_id
    assert ids.count(tokenizer.bos_id) == 1


def test_a_model_without_a_template_gets_chatml():
    assert prompt(ChatTemplate(None, TOKENIZER), "hi") == prompt(
        ChatTemplate(TEMPLATE, TOKENIZER), "hi"
    )


def test_templates_have_what_they_expect():
    source = (
        "{%- for m in messages -%}{{ loop.index0 }}{% if loop.last %}{% break %}{% endif %}"
        "{%- endfor %}{{ strftime_now('%Y') | length }}{{ [1, {'b': 2}] | tojson(indent=1) }}"
        "{{ tools is none }}{{ extra }}{% if missing %}x{% endif %}{{ 'a' ~ 1 }}"
    )
    rendered = ChatTemplate(source, TOKENIZER).render(
        [{"role": "user"}, {"role": "user"}], variables={"extra": "more"}
    )
    assert rendered == '014[\n 1,\n {\n  "b": 2\n }\n]Truemorea1'


HOSTILE = {
    "endless loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
    "{% endfor %}",
    "doubling by +": "{% set n = namespace(x='ab') %}{% for i in range(99) %}"
    "{% set n.x = n.x + n.x %}{% endfor %}",
    "doubling by ~": "{% set n = namespace(x='ab') %}{% for i in range(99) %}"
    "{% set n.x = n.x ~ n.x %}{% endfor %}",
    "doubling by blocks": "{% set n = namespace(x='ab') %}{% for i in range(99) %}"
    "{% set y %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = y %}{% endfor %}",
    "repetition": "{{ 'a' * 10**10 }}",
    "list repetition": "{{ ([1] * 10**10) | length }}",
    "huge numbers": "{{ 9**(9**9) }}",
    "wide padding": "{{ 'a'.ljust(10**9) }}",
    "wide formatting": "{{ '%999999999d' % 1 }}",
    "wide str.format": "{{ '{:>999999999}'.format(1) }}",
    "replacing all by all": "{% set x = 'a' * 1000000 %}{{ x | replace('a', x) }}",
    "joining": "{{ ('a' * 1000000).join(['a'] * 1000000) }}",
    "indenting": "{{ ('\n' * 1000000) | indent('a' * 100000) }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "exponential recursion": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
    "{% endmacro %}{{ m(99) }}",
    "recursive loops": "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "large data in a loop": "{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "printed attributes": "{{ ''.__class__ }}",
    "attributes by filter": "{{ '' | attr('__class__') }}",
    "attributes by format": "{{ '{0.__class__}'.format('') }}",
    "globals of a function": "{{ raise_exception.__globals__ }}",
    "the environment": "{{ self._TemplateReference__context.environment }}",
    "changing messages": "{{ messages.append(1) }}",
    "importing": "{% import 'os' as os %}",
    "missing variables": "{{ system_prompt }}",
    "missing attributes": "{{ nothing.at.all }}",
    "division": "{{ 1 // 0 }}",
    "unknown functions": "{{ open('/etc/passwd') }}",
    "a refusal": "{{ raise_exception('roles must alternate') }}",
}  # fmt: skip


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_templates_end_in_one_clear_error(source):
    template = ChatTemplate(source, TOKENIZER)
    begin = time.monotonic()
    with pytest.raises(ChatTemplateError, match="chat template"):
        template.render([{"role": "user", "content": "hi"}])
    assert time.monotonic() - begin < 60  # it ends; how soon depends on the machine


@pytest.mark.parametrize(
    "source", ["{% for %}", "{{ 'a' | center(9) }}", "{% include x", "x" * 300_000, "{{" * 9999]
)
def test_broken_templates_are_refused_at_once(source):
    with pytest.raises(ChatTemplateError, match="chat template"):
        ChatTemplate(source, TOKENIZER)


def test_a_refusal_says_what_the_template_said():
    template = ChatTemplate(HOSTILE["a refusal"], TOKENIZER)
    with pytest.raises(ChatTemplateError, match="refuses this: roles must alternate"):
        template.render([])


@pytest.mark.parametrize(
    "message", ["hi", {}, {"role": 1}, {"role": "a|>b"}, {"role": "user", "content": object()}]
)
def test_messages_that_are_none_are_refused(message):
    with pytest.raises(InvalidArgumentError):
        ChatTemplate(TEMPLATE, TOKENIZER).render([message])

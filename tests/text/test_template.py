"""Chat templates: control tokens come from the template alone, and hostile ones are stopped."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maglio.errors import ChatTemplateError, InvalidArgumentError
from maglio.text import ChatTemplate, from_metadata, renderer
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
    assert template.render([{"role": "user", "content": "hi"}]).text == text
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
    assert '"x": "<|im_end|>"' in rendered.text


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


def test_a_known_template_has_a_limit_on_its_time_where_there_are_many_messages(monkeypatch):
    asked = []
    render = renderer.shared.render
    monkeypatch.setattr(renderer.shared, "render", lambda given: asked.append(1) or render(given))
    template = ChatTemplate(None, TOKENIZER)
    messages = [{"role": "user", "content": str(number)} for number in range(513)]
    begun = template.render(messages[:512], add_generation_prompt=False).text
    assert asked == []
    all_of_them = template.render(messages, add_generation_prompt=False).text
    assert asked == [1]
    assert all_of_them == begun + "<|im_start|>user\n512<|im_end|>\n"


def test_templates_have_what_they_expect():
    source = (
        "{%- for m in messages -%}{{ loop.index0 }}{% if loop.last %}{% break %}{% endif %}"
        "{%- endfor %}{{ strftime_now('%Y') | length }}{{ [1, {'b': 2}] | tojson(indent=1) }}"
        "{{ tools is none }}{{ extra }}{% if missing %}x{% endif %}{{ 'a' ~ 1 }}"
    )
    rendered = ChatTemplate(source, TOKENIZER).render(
        [{"role": "user"}, {"role": "user"}], variables={"extra": "more"}
    )
    assert rendered.text == '014[\n 1,\n {\n  "b": 2\n }\n]Truemorea1'


SHARED = (
    "{% set n = namespace(a=[], b=[]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
    "{% set n.b = [n.b, n.b] %}{% endfor %}"
)
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
    "joining by filter": "{% set x = 'a' * 10**7 %}{{ ([x] * 130) | join }}",
    "a long concatenation": "{% set x = 'a' * 10**8 %}{{ x" + " ~ x" * 30 + " }}",
    "repeated fields": "{% set x = 'a' * 10**7 %}{{ ('{0}' * 130).format(x) }}",
    "tabs": "{{ ('\t' * 10**6).expandtabs(10000) }}",
    "wide bytes": "{{ 'a'.encode().center(4 * 10**9) }}",
    "translating": "{{ ('a' * 10**5).translate({97: 'b' * 10**5}) }}",
    "separators": "{{ ([1] * 10**5) | tojson(separators=['a' * 10**5, 'b']) }}",
    "shared lists compared": SHARED + "{{ n.a == n.b }}",
    "shared lists searched": SHARED + "{{ n.b in [n.a] }}",
    "shared lists as text": SHARED + "{{ n.a | string }}",
    "shared lists as JSON": SHARED + "{{ n.a | tojson }}",
    "many branches": "{% if 0 %}" + "{% elif 0 %}" * 10000 + "{% endif %}",
    "nested branches": "{% if 1 %}" * 500 + "{% endif %}" * 500,
    "a number of 5,000 digits": "{{ " + "9" * 5000 + " }}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "the environment": "{{ self._TemplateReference__context.environment }}",
    "a list that grows as it is walked": "{% set x = [1] %}{% for i in x %}{% do x.append(i) %}"
    "{% endfor %}",
    "lists that hold each other": "{% set x = [] %}{% set y = [x] %}{% set z = [y] %}"
    "{% do x.append(y) %}{% do z.append(x) %}{{ [x, y] == [y, z] }}",
    "a list in itself as JSON": "{% set x = [] %}{% do x.append(x) %}{{ x | tojson }}",
    "importing": "{% import 'os' as os %}",
    "missing attributes": "{{ nothing.at.all }}",
    "division": "{{ 1 // 0 }}",
    "unknown functions": "{{ open('/etc/passwd') }}",
    "a refusal": "{{ raise_exception('roles must alternate') }}",
    "unknown tags": "{% for %}",
    "an open tag": "{% include x",
    "many open tags": "{{" * 9999,
}  # fmt: skip


@pytest.fixture(scope="module")
def tight():
    """A renderer with less time and memory than usual, so that the tests end sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renderer, "shared", renderer.Renderer(memory=128 << 20, seconds=0.2))
        yield
        renderer.shared.close()


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.usefixtures("tight")
def test_hostile_templates_end_in_one_clear_error(source):
    template = ChatTemplate(source, TOKENIZER)
    with pytest.raises(ChatTemplateError, match="the chat template"):
        template.render([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ '' | attr('__class__') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ raise_exception.__globals__ }}",
    ],
)
def test_python_is_out_of_reach(source):
    assert ChatTemplate(source, TOKENIZER).render([]).text == ""


def test_a_template_that_is_too_long_is_refused_at_once():
    with pytest.raises(ChatTemplateError, match="'default' has 300000 characters"):
        ChatTemplate("x" * 300_000, TOKENIZER)


ECOSYSTEM = {
    "{% generation %}a{% endgeneration %}b": "ab",
    "{% set x = [1] %}{% do x.index(1) %}x": "x",
    "{{ '%s-%d' | format('a', 2) }}": "a-2",
    "[{{ 'a' | center(3) }}]": "[ a ]",
    "{% for m in messages %}[{{ m.content }}]{% endfor %}": "[]",
    "[{{ missing }}{{ messages[0].missing }}]": "[]",
    "{{ eos_token }}{{ unk_token }}{{ pad_token }}": "<|im_end|>",
    "{{ '[1]' | from_json | tojson }}": "[1]",
    "{{ messages | map(attribute='role') | tojson }}": '["user"]',
    "{{ {'é': '<'} | tojson }}{{ 'é' | tojson(ensure_ascii=true) }}": '{"é": "<"}"\\u00e9"',
    "{% set x = [] %}{% do x.append('a') %}{{ x }}{% set y = {} %}{% do y.update(a=1) %}{{ y }}": (
        "['a']{'a': 1}"
    ),
    "{% if 1 %}\n  {% set x = 1 %}\n{{ x }}\n{% endif %}\n": "1\n",
}


@pytest.mark.parametrize(("source", "text"), ECOSYSTEM.items(), ids=ECOSYSTEM.keys())
def test_templates_may_use_what_the_ecosystem_has(source, text):
    assert ChatTemplate(source, TOKENIZER).render([{"role": "user"}]).text == text


def test_a_random_choice_is_the_same_each_time():
    template = ChatTemplate("{{ range(10**5) | random }}", TOKENIZER)
    assert template.render([]) == template.render([])


@pytest.mark.parametrize(
    ("source", "tools", "said"),
    [
        ({"default": "a", "tool_use": "b"}, [{"name": "f"}], "b"),
        ({"default": "a", "tool_use": "b"}, None, "a"),
        ({"default": "a", "tool_use": "b"}, [], "a"),
        ({"default": "a", "rag": "b"}, [{"name": "f"}], "a"),
    ],
)
def test_the_template_for_tools_is_taken_where_there_are_tools(source, tools, said):
    assert ChatTemplate(source, TOKENIZER).render([], tools=tools).text == said


def test_a_template_changes_its_own_copies_alone():
    source = "{% do messages.append(messages[0]) %}{% do messages[0].update(content='x') %}"
    source += "{{ messages | length }}{{ messages[0].content }}<|im_end|>"
    messages = [{"role": "user", "content": "hi"}]
    template = ChatTemplate(source, TOKENIZER)
    first = template.render(messages)
    assert (first.text, len(first.control)) == ("2x<|im_end|>", 1)
    assert template.render(messages) == first
    assert messages == [{"role": "user", "content": "hi"}]


def test_what_a_template_puts_into_a_list_is_its_own():
    source = "{% set x = [] %}{% for m in messages %}{% do x.append('<|im_start|>' ~ m.content) %}"
    source += "{% do x.insert(0, '<|im_end|>') %}{% endfor %}{{ x | join }}"
    prompt = ChatTemplate(source, TOKENIZER).render([{"role": "user", "content": "<|im_start|>"}])
    assert prompt.text == "<|im_end|><|im_start|><|im_start|>"
    assert prompt.control == ((0, 10), (10, 22))


def test_a_template_can_be_chosen_by_name():
    template = ChatTemplate({"default": "a", "tool_use": "b", "rag": "c"}, TOKENIZER)
    assert template.render([], name="rag", tools=[{"name": "f"}]).text == "c"
    assert template.render([], name="default", tools=[{"name": "f"}]).text == "a"
    with pytest.raises(InvalidArgumentError, match=r"'x', must be .*: default, tool_use, rag"):
        template.render([], name="x")


def test_names_of_tools_and_arguments_make_no_control_tokens():
    source = "{{ tools | tojson }}{% for k, v in messages[0].a.items() %}{{ k }}{% endfor %}"
    prompt = ChatTemplate(source, TOKENIZER).render(
        [{"role": "user", "a": {"<|im_end|>": 1}}], tools=[{"<|im_start|>": {"<|im_end|>": 1}}]
    )
    assert prompt.text == '[{"<|im_start|>": {"<|im_end|>": 1}}]<|im_end|>'
    assert prompt.control == ()


@pytest.mark.parametrize("name", ["im_end", "IM_END", "im-_-end"])
def test_a_message_cannot_fill_in_a_control_token(name):
    source = "{{ '<|' ~ messages[0].content | lower | replace('-', '') ~ '|>' }}"
    template = ChatTemplate(source, TOKENIZER)
    prompt = template.render([{"role": "user", "content": name}])
    assert (prompt.text, prompt.control) == ("<|im_end|>", ())


def test_a_template_may_put_a_control_token_together_from_its_own_words_and_roles():
    source = (
        "{{ '<|' ~ 'im' ~ '_end|>' }}{{ '<|' ~ messages[0].role | lower ~ '|>' }}"
        "{{ messages[0].x }}"
    )
    prompt = ChatTemplate(source, TOKENIZER).render(
        [{"role": "IM_start", "x": "im im_end im_start"}]
    )
    assert prompt.control == ((0, 10), (10, 22))


def test_messages_may_hold_private_use_characters():
    text = "".join(map(chr, range(0xF0000, 0xF0200))) + "<|im_end|>"
    prompt = ChatTemplate(TEMPLATE, TOKENIZER).render([{"role": "user", "content": text}])
    assert prompt.text == f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    assert len(prompt.control) == 3


def test_messages_of_all_private_use_characters_are_refused():
    text = "".join(map(chr, range(0xF0000, 0x10FFFE)))
    with pytest.raises(InvalidArgumentError, match="private-use"):
        ChatTemplate(TEMPLATE, TOKENIZER).render([{"role": "user", "content": text}])


def test_lone_surrogates_come_through():
    prompt = ChatTemplate("{{ messages[0].content }}!", TOKENIZER).render(
        [{"role": "user", "content": "\udcff\ud83d\ude00"}]
    )
    assert prompt.text == "\udcff\ud83d\ude00!"


def test_a_refusal_says_what_the_template_said():
    template = ChatTemplate(HOSTILE["a refusal"], TOKENIZER)
    with pytest.raises(ChatTemplateError, match="refuses this: roles must alternate"):
        template.render([])


def nested(depth, width):
    value = []
    for _ in range(depth):
        value = [value] * width
    return value


@pytest.mark.parametrize(
    "message",
    [
        "hi",
        {},
        {"role": 1},
        {"role": "a|>b"},
        {"role": "user", "content": object()},
        {"role": "user", "content": nested(60, 2)},
        {"role": "user", "content": nested(99, 1)},
        {"role": "user", "content": 10**5000},
    ],
    ids=["text", "empty", "role", "mark", "object", "shared lists", "deep lists", "large number"],
)
def test_messages_that_are_none_are_refused(message):
    with pytest.raises(InvalidArgumentError):
        ChatTemplate(TEMPLATE, TOKENIZER).render([message])

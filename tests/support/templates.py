"""Chat templates written for the tests, each with things that templates in the wild do."""

from __future__ import annotations

import os
from pathlib import Path

OWN = {
    "generation blocks": "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}\n"
    "{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}",
    "do and namespace": "{%- set ns = namespace(n=0, text='') -%}{%- for m in messages -%}"
    "{%- set ns.n = ns.n + 1 -%}{%- do m.get('content') -%}"
    "{%- set ns.text = ns.text ~ '<|im_start|>' ~ m.role ~ ns.n ~ (m.content or '') -%}"
    "{%- endfor -%}{{ ns.text ~ '<|im_end|>' }}",
    "lists that grow": "{% set parts = [] %}{% for m in messages %}"
    "{% do parts.append('<|im_start|>' ~ m.role) %}{% do parts.extend([m.content or '', '\n']) %}"
    "{% do m.update(content='<|im_end|>') %}{% do parts.append(m.content) %}{% endfor %}"
    "{{ parts | join }}",
    "macros": "{% macro turn(role, text) %}<|im_start|>{{ role }}\n{{ text | trim }}<|im_end|>\n"
    "{% endmacro %}{% for m in messages %}{{ turn(m['role'], m['content']) }}{% endfor %}",
    "a macro measured and trimmed": "{% macro turn(m) %} <|im_start|>{{ m.content }}<|im_end|> "
    "{% endmacro %}{% for m in messages %}{% set text = turn(m) | trim %}{{ text }}"
    "{{ text | length }}{% endfor %}",
    "tools": "{% if tools %}<|im_start|>tools\n{% for tool in tools %}{{ tool | tojson }}\n"
    "{% for name, value in tool.function.parameters.properties | dictsort %}{{ name }}: "
    "{{ value.description }}\n{% endfor %}{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<tool_call>"
    "{{ call.function.arguments | tojson(indent=2) }}</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}",
    "JSON in its variants": "{% for m in messages %}<|im_start|>{{ m | tojson(ensure_ascii=true) }}"
    "{{ m | tojson(separators=(',', ':'), sort_keys=true) }}<|im_end|>{% endfor %}",
    "cutting at a tag": "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% set text = m.content or '' %}{% if '</think>' in text %}"
    "{{ text.split('</think>')[-1].lstrip('\\n') }}{% else %}{{ text }}{% endif %}<|im_end|>\n"
    "{% endfor %}",
    "thinking in a channel": "{% macro said(text) %}{% for part in text.split('<channel|>') %}"
    "{{ part.split('<|channel>')[0] }}{% endfor %}{% endmacro %}{{ bos_token }}"
    "{% if enable_thinking %}<|turn>system\n<|think|><turn|>\n{% endif %}{% for m in messages %}"
    "<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ said(m.content or '') | trim }}<turn|>\n{% endfor %}{% if add_generation_prompt %}"
    "<|turn>model\n{% if not enable_thinking | default(false) %}<|channel>thought\n<channel|>"
    "{% endif %}{% endif %}",
    "slices and reversed texts": "{% for m in messages %}<|im_start|>{{ (m.content or '')[1:-1] }}|"
    "{{ (m.content or '') | reverse }}|{{ (m.content or '')[::-1] }}<|im_end|>{% endfor %}",
    "lengths and places": "{% for m in messages %}{% set text = m.content or '' %}<|im_start|>"
    "{{ text | length }} {{ text.find('<|im_end|>') }} {{ text.count('<') }} "
    "{{ text > '<|' }} {{ text.startswith('<|im_start|>') }}<|im_end|>{% endfor %}",
    "URLs": "{% for m in messages %}<|im_start|>{{ (m.content or '') | urlencode }} "
    "{{ (m.content or '') | e }} {{ (m.content or '') | upper }}<|im_end|>{% endfor %}",
    "mappings as texts": "{% for m in messages %}<|im_start|>{{ m }}{{ [m.content] | string }}"
    "<|im_end|>{% endfor %}",
    "built from the role": "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content }}"
    "{{ '<|' }}im_end{{ '|>' }}{% endfor %}<|assistant|>",
    "padding": "{{ bos_token }}{% for m in messages %}{{ '%s: %s' | format(m.role, m.content) }}"
    "{{ (m.content or '') | center(20) }}{{ unk_token }}{{ pad_token }}{{ eos_token }}"
    "{% endfor %}",
    "searching its own text": "{% set all = namespace(x='') %}{% for m in messages %}"
    "{% set all.x = all.x + '<|im_start|>' + (m.content or '') + '<|im_end|>' %}{% endfor %}"
    "{% if all.x.endswith('<|im_end|>') and all.x != '<|im_end|>' %}{{ all.x }}{% endif %}",
}  # fmt: skip


def llama_cpp() -> dict[str, str]:
    """Those of llama.cpp, where MAGLIO_TEMPLATES names their folder; none otherwise."""
    folder = os.environ.get("MAGLIO_TEMPLATES")
    if not folder:
        return {}
    return {path.stem: path.read_text() for path in sorted(Path(folder).glob("*.jinja"))}

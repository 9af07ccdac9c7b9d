"""A byte-level tokenizer with templates in the manner of Qwen: tools, tool calls and their answers."""

from __future__ import annotations

from burnish.traces.templates import chat_format
from tests.tiny import tiny_tokenizer

_TURNS = """{% if tools %}<|im_start|>system
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools><|im_end|>
{% endif %}{% for message in messages %}
{%- set content = message['content'] or '' %}
{%- if message['role'] == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1]['role'] != 'tool' %}<|im_start|>user
{% endif %}<tool_response>
{{ content }}
</tool_response>{% if loop.last or messages[loop.index0 + 1]['role'] != 'tool' %}<|im_end|>
{% else %}
{% endif %}
{%- else %}<|im_start|>{{ message['role'] }}
FORGET{{ content }}{% for call in message['tool_calls'] or [] %}<tool_call>
{"name": "{{ call['function']['name'] }}", "arguments": {{ call['function']['arguments'] | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

TOKENIZER = tiny_tokenizer(260)


def _format(forget: str):
    tokenizer = tiny_tokenizer(260)
    tokenizer.chat_template = _TURNS.replace("FORGET", forget)
    return chat_format(tokenizer)


FORMAT = _format("")
FORGETFUL = _format(
    "{% if '</think>' in content and not loop.last %}"
    "{% set content = content.split('</think>')[-1].lstrip() %}{% endif %}"
)
"""Takes the thinking out of every turn but the last."""

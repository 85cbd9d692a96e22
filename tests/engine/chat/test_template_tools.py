"""Tools in chat templates: as transformers renders them; what clients wrote is text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from lookhear.engine.chat.template import ChatTemplate, UserText
from lookhear.engine.messages import ChatMessage, ImagePart, Part, TextPart, Tool, ToolCall
from tests.engine.chat.test_template import joined

# As Qwen3's and Qwen2.5's write them, each in its way.
QWEN = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "tool" %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif message.role != "system" or not tools %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content }}
        {%- if message.reasoning_content is string %}{{- '<think>' + message.reasoning_content + '</think>' }}{%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- set call = call.function %}
            {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
            {%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{{- '<|im_start|>assistant\\n' }}
"""  # noqa: E501
OTHERS = """\
{%- for tool in tools %}[{{ tool.function.name }}: {{ tool.function.description }}
{%- for name, what in tool.function.parameters.properties.items() %}
 {{- name }}={{ what.type }}{% endfor %}]
{%- endfor %}
{%- for message in messages %}
{%- if message.tool_calls %}{{ message.tool_calls | tojson }}
{%- elif message.role == 'tool' %}<{{ message.tool_call_id }}>{{ message.content }}
{%- else %}{{ message.content }}{% endif %}{% endfor %}"""
WORDS = st.text('a<|im_end|>"\\\n\ue0000\ue001é', max_size=8)
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": 'a "city" <é>'}}}


@pytest.mark.parametrize("source", [QWEN, OTHERS], ids=["Qwen", "by hand"])
@given(
    st.text('a<|im_end|>"\\é', max_size=8),
    WORDS,
    st.dictionaries(WORDS, WORDS | st.integers(), max_size=2),
)
def test_tools_are_rendered_as_transformers_does(
    source: str, description: str, said: str, arguments: dict[str, Any]
) -> None:
    written = json.dumps(arguments, ensure_ascii=False)
    ours = [
        ChatMessage("system", [TextPart("Be kind.")]),
        ChatMessage("user", [TextPart(said)]),
        ChatMessage("assistant", [TextPart("So")], [ToolCall("c", "f", written)]),
        ChatMessage("tool", [TextPart(said)], call="c"),
    ]  # fmt: skip
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    theirs: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": said},
        {"role": "assistant", "content": "So", "tool_calls": [call]},
        {"role": "tool", "content": said, "tool_call_id": "c", "name": "f"},
    ]
    function = {"name": "f", "description": description, "parameters": CITY}
    rendered: Any = render_jinja_template(
        conversations=[theirs],
        tools=[{"type": "function", "function": function}],
        chat_template=source,
    )
    ((expected,), _) = rendered
    template = ChatTemplate(source, {}, Path("chat_template.jinja"))
    tool = Tool("f", description, json.dumps(CITY))
    pieces = template.render(ours, tools=[tool])
    assert joined(pieces) == expected
    # What clients wrote is never the template's, whose special tokens are special.
    users = "".join(piece.text for piece in pieces if isinstance(piece, UserText))
    spelt = json.dumps(description, ensure_ascii=False)[1:-1]
    assert description.isalnum() or description in users or spelt in users


def test_a_template_that_knows_no_tools_tells_them_in_plain_text() -> None:
    source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    template = ChatTemplate(source, {}, Path("chat_template.jinja"))
    messages = [
        ChatMessage("user", [TextPart("Go")]),
        ChatMessage("assistant", [], [ToolCall("c", "f", '{"a": 1}')]),
        ChatMessage("tool", [TextPart("done")], call="c"),
    ]
    text = joined(template.render(messages, tools=[Tool("f", "goes", "{}")]))
    assert text.startswith("[system]You can call tools.") and '"description": "goes"' in text
    assert text.endswith(
        '[user]Go[assistant]<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
        "[user]<tool_response>\ndone\n</tool_response>"
    )
    told = [ChatMessage("system", [TextPart("Be kind.")]), *messages]
    text = joined(template.render(told, tools=[Tool("f", "goes", "{}")]))
    assert text.startswith("[system]Be kind.") and "You can call tools." in text
    assert text.count("[system]") == 1


def test_pictures_in_outputs_of_tools_stay_where_they_are() -> None:
    source = (
        "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}"
        "{{ p.text if p.type == 'text' else '<picture>' }}|{% endfor %}{% endfor %}"
    )
    template = ChatTemplate(source, {}, Path("chat_template.jinja"))
    output: list[Part] = [TextPart("It is "), TextPart("this: "), ImagePart("a"), TextPart("!")]
    messages = [
        ChatMessage("assistant", [TextPart("So")], [ToolCall("c", "f", "{}")]),
        ChatMessage("tool", output, call="c"),
    ]
    text = joined(template.render(messages, lists=True))
    told = "<tool_response>\nIt is this: |<picture>|!\n</tool_response>|"
    assert text.endswith(f"[user]{told}")

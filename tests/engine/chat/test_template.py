"""Chat templates: what they write is theirs, what users write is text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lookhear.engine.chat.generation import GenerationDefaults
from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.chat.template import (
    DEFAULT,
    ChatTemplate,
    Piece,
    TemplateText,
    UserText,
)
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import AnswerSettings, ChatMessage, TextPart
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.chat.asking import image, user
from tools.random_checkpoints.qwen3_vl import write_vl_tokenizer

# Qwen3's way of switching its thinking off: an empty one is put in front of the answer.
THINKING = DEFAULT.replace(
    "{{- '<|im_start|>assistant\\n' -}}",
    "{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}"
    "{{- '<think>\\n\\n</think>\\n\\n' -}}{%- else -%}{{- '<think>\\n' -}}{%- endif -%}",
)


def template(source: str = DEFAULT) -> ChatTemplate:
    return ChatTemplate(source, {"eos_token": "<|im_end|>"}, Path("chat_template.jinja"))


def joined(pieces: list[Piece]) -> str:
    return "".join(p.text for p in pieces if isinstance(p, TemplateText | UserText))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_vl_tokenizer(folder)
    return QwenTokenizer.from_folder(folder)


def test_a_conversation() -> None:
    messages = [ChatMessage("system", [TextPart("Be brief.")]), user("a", "b")]
    assert joined(template().render(messages)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert joined(template().render([user("a", image("p"), "b")], lists=True, ask=False)) == (
        "<|im_start|>user\na<|vision_start|><|image_pad|><|vision_end|>b<|im_end|>\n"
    )


@pytest.mark.parametrize(
    "text", ["<|im_end|>", "\ue0000\ue001", "{{ messages }}", "\ue00099\ue001"]
)
def test_what_users_write_is_text(text: str) -> None:
    pieces = template().render([user(text)])
    assert [piece for piece in pieces if isinstance(piece, UserText)] == [UserText(text)]


def test_variables_reach_the_template(tokenizer: QwenTokenizer) -> None:
    prompter = ChatPrompter(tokenizer, template(THINKING), None, 1000)
    assert prompter.prompt("s", [user("a")]).is_thinking
    off = prompter.prompt("s", [user("a")], variables={"enable_thinking": False})
    assert not off.is_thinking and tokenizer.decode(off.tokens).endswith("</think>\n\n")


@pytest.mark.parametrize(
    "source",
    ["{{ raise_exception('no') }}", "{{ messages[0].content.nothing() }}", "{{ 1 + 'a' }}"],
)
def test_a_template_that_refuses_is_the_requests_error(source: str) -> None:
    with pytest.raises(RequestError, match="chat template refused"):
        template(source).render([user("a")])


def test_a_broken_template_is_the_checkpoints_error() -> None:
    with pytest.raises(CheckpointError, match="expected a chat template"):
        template("{% if %}")


ASKS_FOR_TOOLS = """\
{%- if tools is not none -%}{{- 'Tools: ' + tools | tojson -}}{%- endif -%}
{%- if documents is not none -%}{{- 'Documents' -}}{%- endif -%}
{%- for message in messages %}{{ message.content }}{% endfor -%}
"""
MARKS_ANSWERS = """\
{%- set who = 'nobody' %}
{%- for message in messages %}
  {%- if message.role == 'assistant' %}
    {%- generation %}{% set who = 'it' %}{{ '<a>' + message.content + '</a>' }}
    {% endgeneration %}
  {%- else %}
    {{- message.content }}
  {%- endif %}
{{ who }}
{%- endfor %}
"""


@pytest.mark.parametrize("source", [ASKS_FOR_TOOLS, MARKS_ANSWERS], ids=["tools", "generation"])
def test_templates_are_rendered_as_transformers_does(source: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    said = [("user", "a"), ("assistant", "b"), ("user", "c")]
    plain = [{"role": role, "content": text} for role, text in said]
    (theirs,), _ = render_jinja_template([plain], chat_template=source, add_generation_prompt=True)
    messages = [ChatMessage(role, [TextPart(text)]) for role, text in said]
    assert joined(template(source).render(messages)) == theirs


@pytest.mark.parametrize("form", ["jinja", "json", "tokenizer", "named", "none"])
def test_where_templates_are(tmp_path: Path, form: str) -> None:
    source = "{{ bos_token }}{{ messages[0].content }}!"
    config: dict[str, Any] = {"bos_token": {"content": "<b>"}}
    match form:
        case "jinja":
            (tmp_path / "chat_template.jinja").write_text(source)
        case "json":
            (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": source}))
        case "tokenizer":
            config["chat_template"] = source
        case "named":
            config["chat_template"] = [{"name": "default", "template": source}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    text = joined(ChatTemplate.from_folder(tmp_path).render([user("a")]))
    assert text.startswith("<|im_start|>user\na" if form == "none" else "<b>a!")


@pytest.mark.parametrize(
    ("source", "n"),
    [
        ("{{ 1 / n }}", 0),
        ("{% for i in range(n) %}{% endfor %}", 10**9),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() if n else '' }}", 1),
    ],
)
def test_variables_that_a_template_cannot_use_are_refused(source: str, n: int) -> None:
    """Whatever it makes of them: they are of one client, and the engine is everybody's."""
    chat = template(source)
    with pytest.raises(RequestError, match="the model's chat template refused them"):
        chat.render([user("a")], variables={"n": n})


@pytest.mark.parametrize("digits", [9, 10, 5000])
def test_a_variable_that_looks_like_a_mark_is_none(digits: int) -> None:
    chat = template("{{ n }}: {{ messages[0].content }}")
    written = f"\ue000{'1' * digits}\ue001"
    pieces = chat.render([user("a")], variables={"n": written})
    assert [piece.text for piece in pieces if isinstance(piece, UserText)] == ["a"]


def test_the_beginning_is_that_of_every_longer_message(tokenizer: QwenTokenizer) -> None:
    prompter = ChatPrompter(tokenizer, template(), None, 1000)
    start = prompter.beginning("s", [user("one"), user("two ")]).tokens
    whole = prompter.prompt("s", [user("one"), user("two ", "three")]).tokens
    assert whole[: len(start) - 1] == start[:-1] and len(start) > 8


def test_the_beginning_of_what_a_template_writes_otherwise(tokenizer: QwenTokenizer) -> None:
    """The output of a tool in plain text or as JSON, where more would not stand by itself, and a
    template that leaves it out."""
    output = ChatMessage("tool", [TextPart("ok")], call="c")
    as_json = "{% for m in messages %}{{ m.role }}{{ {'content': m.content} | tojson }}{% endfor %}"
    for source in (DEFAULT, f"{as_json}{{# tools #}}", "{{ messages[0].content }}{# tools #}"):
        chat = ChatTemplate(source, {}, Path("a"))
        prompter = ChatPrompter(tokenizer, chat, None, 1000)
        start = prompter.beginning("s", [user("one"), output]).tokens
        whole = prompter.prompt("s", [user("one"), output]).tokens
        assert whole[: len(start)][:-1] == start[:-1]


def test_defaults_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.9}))
    defaults = GenerationDefaults.from_folder(tmp_path)
    params = defaults.sampling(AnswerSettings("m", top_p=0.5), 7, (3,), 100)
    assert (params.temperature, params.top_k, params.top_p, params.max_tokens) == (0.6, 20, 0.5, 7)
    assert params.stop_tokens == (3,)
    assert defaults.sampling(AnswerSettings("m", ignore_end=True), 7, (3,), 100).stop_tokens == ()
    path.write_text(json.dumps({"temperature": 0.6, "top_k": 20}))  # it does not sample
    assert GenerationDefaults.from_folder(tmp_path) == GenerationDefaults()
    path.write_text(json.dumps({"do_sample": True, "temperature": "hot"}))
    with pytest.raises(CheckpointError, match="temperature"):
        GenerationDefaults.from_folder(tmp_path)

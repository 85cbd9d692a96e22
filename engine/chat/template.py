"""A checkpoint's chat template: messages to the text that it was trained on.

What users wrote never goes through the template: marks stand for it, and it is put back as plain
text afterwards. So nobody can write a special token, and no text can be taken for the template's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from lookhear.engine.chat.plain_tools import as_plain_text
from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.core.request import RequestError
from lookhear.engine.markup.families import family_of
from lookhear.engine.markup.thinking import tags_of
from lookhear.engine.messages import (
    AudioPart,
    ChatMessage,
    EmbeddingsPart,
    ImagePart,
    Part,
    TextPart,
    Tool,
    ToolCall,
    VideoPart,
)

KINDS: dict[type, str] = {ImagePart: "image", VideoPart: "video", AudioPart: "audio"}
# Longer numbers are none of ours, but a client's, in a variable that a template writes.
_MARK = re.compile("\ue000(\\d{1,9})\ue001")
_WORD = re.compile(r"[A-Za-z0-9_.$-]{1,64}")  # cannot spell a special token
# What transformers always hands over; a template may ask whether they are none.
_NONE: Mapping[str, None] = {"tools": None, "documents": None}
_TEXTS = "lookhear_texts"  # the variable that filters find the marked texts by

# What a template may raise by variables that a client made up: 1 / n, range(10**9), call(itself).
_REFUSALS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

# Where a checkpoint has none: Qwen's common frame, with media as Qwen3-VL and -Omni have them.
DEFAULT = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.content is string -%}
    {{- message.content -}}
  {%- else -%}
    {%- for part in message.content -%}
      {%- if part.type == 'image' -%}
        {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
      {%- elif part.type == 'video' -%}
        {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
      {%- elif part.type == 'audio' -%}
        {{- '<|audio_start|><|audio_pad|><|audio_end|>' -}}
      {%- else -%}
        {{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A piece of what the template itself wrote; special tokens may be in it."""

    text: str


@dataclass(frozen=True, slots=True)
class UserText:
    """What somebody wrote: plain text, whatever it looks like."""

    text: str


@dataclass(frozen=True, slots=True)
class UserEmbeddings:
    """Embeddings in the place of a text. name: of the part's."""

    name: str


@dataclass(frozen=True, slots=True)
class GivenTokens:
    """Tokens that somebody made of a text."""

    ids: tuple[int, ...]


Piece = TemplateText | UserText | UserEmbeddings | GivenTokens


class _Arguments(dict[str, Any]):
    """Of a call. Templates want an object; where they write it as JSON it is what the model wrote,
    so that prompts go on as they were read. text: a mark of that."""

    text: str = ""


class _Written:
    """The texts that marks stand for, in one rendering."""

    def __init__(self) -> None:
        self.texts: list[str | EmbeddingsPart] = []

    def mark(self, text: str | EmbeddingsPart) -> str:
        """What stands for a text, or for embeddings in the place of one."""
        self.texts.append(text)
        return f"\ue000{len(self.texts) - 1}\ue001"

    def marked(self, value: Any) -> Any:
        """JSON, its texts marked; not mere words, which templates compare and look for."""
        if isinstance(value, str):
            return value if _WORD.fullmatch(value) else self.mark(value)
        if isinstance(value, list):
            return [self.marked(entry) for entry in value]
        if isinstance(value, dict):
            return {self.marked(name): self.marked(entry) for name, entry in value.items()}
        return value

    def plain(self, value: Any) -> Any:
        """The JSON again that `marked` was made of."""
        if isinstance(value, str):
            return _MARK.sub(lambda found: self._text(int(found[1])), value)
        if isinstance(value, list | tuple):
            return [self.plain(entry) for entry in value]
        if isinstance(value, dict):
            return {self.plain(name): self.plain(entry) for name, entry in value.items()}
        return value

    def _text(self, index: int) -> str:
        text = self.texts[index]
        if isinstance(text, EmbeddingsPart):
            raise TypeError("it writes contents as JSON, and embeddings are no text")
        return text

    def piece(self, index: int) -> Piece:
        """What a mark stands for."""
        text = self.texts[index]
        return UserText(text) if isinstance(text, str) else UserEmbeddings(text.embeddings)

    def tool(self, tool: Tool) -> dict[str, Any]:
        """As templates know tools."""
        function = {
            "name": self.mark(tool.name),
            "description": self.mark(tool.description),
            "parameters": self.marked(json.loads(tool.parameters)),
        }
        return {"type": "function", "function": function}

    def call(self, call: ToolCall) -> dict[str, Any]:
        """As templates know calls."""
        arguments = _Arguments(self.marked(json.loads(call.arguments)))
        arguments.text = self.mark(call.arguments)
        function = {"name": self.mark(call.name), "arguments": arguments}
        return {"id": self.mark(call.id), "type": "function", "function": function}


class ChatTemplate:
    """source: the Jinja template. tokens: variables such as bos_token. origin: named in errors.

    asks_for_thinking: whether thinking can be asked for, by its variable `enable_thinking`.
    knows_tools: whether it tells the model of tools; else a plain text does. calls: how calls of
    them are written. thinking: the tags around it."""

    def __init__(self, source: str, tokens: Mapping[str, str], origin: Path) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[jinja2.ext.loopcontrols, _Generation],
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise CheckpointError(f"{origin}: expected a chat template, got {error}") from error
        self._tokens = dict(tokens)
        # Of models that were trained both ways, and begin their thinking themselves.
        self.asks_for_thinking = "enable_thinking" in source
        self.knows_tools = re.search(r"\btools\b", source) is not None
        self.calls = family_of(source)
        self.thinking = tags_of(source)

    @classmethod
    def from_folder(cls, folder: Path, default: str = DEFAULT) -> ChatTemplate:
        """chat_template.jinja, chat_template.json, or the field of tokenizer_config.json; else the
        default."""
        config = read_json(folder / "tokenizer_config.json", required=False)
        tokens = {
            key: value if isinstance(value, str) else value.get("content", "")
            for key, value in config.items()
            if key.endswith("_token") and isinstance(value, str | dict)
        }
        path = folder / "chat_template.jinja"
        if path.is_file():
            return cls(path.read_text(encoding="utf-8"), tokens, path)
        path = folder / "chat_template.json"
        source = read_json(path, required=False).get("chat_template") or config.get("chat_template")
        if isinstance(source, list):  # several, by name
            source = next((t.get("template") for t in source if t.get("name") == "default"), None)
        return cls(source if isinstance(source, str) else default, tokens, path)

    def render(
        self,
        messages: Sequence[ChatMessage],
        *,
        ask: bool = True,
        lists: bool = False,
        variables: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
    ) -> list[Piece]:
        """The conversation in order. lists: contents are lists of parts, as for models that see or
        hear. variables: of the template, by the client. tools: what may be called. Raises
        `RequestError` if it refuses them."""
        written = _Written()
        mark = written.mark
        if not self.knows_tools:
            messages, tools = as_plain_text(messages, tools, self.calls), ()

        def content(message: ChatMessage) -> str | list[dict[str, str]]:
            if not lists:
                return "\n".join(mark(t) for t in map(_text_of, message.parts) if t is not None)
            parts = []
            for part in message.parts:
                if (text := _text_of(part)) is not None:
                    parts.append({"type": "text", "text": mark(text)})
                else:
                    parts.append({"type": KINDS[type(part)]})
            return parts

        def line(message: ChatMessage) -> dict[str, Any]:
            told: dict[str, Any] = {"role": message.role, "content": content(message)}
            if message.calls:
                told["tool_calls"] = [written.call(call) for call in message.calls]
                names.update((call.id, call.name) for call in message.calls)
            if message.call is not None:
                told["tool_call_id"] = mark(message.call)
                told["name"] = mark(names.get(message.call, ""))
            if message.thinking:
                told["reasoning_content"] = mark(message.thinking)
            return told

        names: dict[str, str] = {}  # of the tools that were called, by the ids of the calls
        given = [line(message) for message in messages]
        shown = {"tools": [written.tool(tool) for tool in tools]} if tools else {}
        try:
            text = self._template.render(
                **{**_NONE, **self._tokens, **(variables or {}), **shown, _TEXTS: written},
                messages=given,
                add_generation_prompt=ask,
            )
        except _REFUSALS as error:
            raise RequestError(
                "invalid_value", f"messages: the model's chat template refused them: {error}"
            ) from error
        pieces: list[Piece] = []
        for i, piece in enumerate(_MARK.split(text)):
            if i % 2 == 0:
                pieces.append(TemplateText(piece))
            elif int(piece) < len(written.texts):
                pieces.append(written.piece(int(piece)))
        return [p for p in pieces if not isinstance(p, TemplateText | UserText) or p.text]

    def begun(self, messages: Sequence[ChatMessage], **options: Any) -> list[Piece]:
        """As `render`, up to the end of the last message's text: an answer that has begun."""
        pieces, last = self.render(messages, ask=False, **options), messages[-1].parts[-1]
        for end in range(len(pieces), 0, -1):
            if isinstance(last, TextPart) and pieces[end - 1] == UserText(last.text):
                return pieces[:end]
        raise RequestError(
            "invalid_value", "messages: the model's chat template leaves out the last one's text"
        )


def _text_of(part: Part) -> str | EmbeddingsPart | None:
    """What stands there as text does; None: it is a medium."""
    if isinstance(part, TextPart):
        return part.text
    return part if isinstance(part, EmbeddingsPart) else None


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` says which text is an answer's, of which a training run learns. It is
    written as it stands; what is set within it is not known behind it."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


@jinja2.pass_context
def _to_json(
    context: jinja2.runtime.Context, value: Any, ensure_ascii: bool = False, **options: Any
) -> str:
    # Jinja's own escapes HTML, which no model was trained on.
    written: _Written = context[_TEXTS]
    if isinstance(value, _Arguments):
        return value.text
    return written.mark(json.dumps(written.plain(value), ensure_ascii=ensure_ascii, **options))


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)

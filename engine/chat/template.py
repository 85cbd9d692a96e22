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
import jinja2.sandbox

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import ChatMessage, TextPart, VideoPart

_MARK = re.compile("\ue000(\\d+)\ue001")

# Where a checkpoint has none: Qwen's common frame, with pictures as Qwen3-VL has them.
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


class ChatTemplate:
    """source: the Jinja template. tokens: variables such as bos_token. origin: named in errors.

    asks_for_thinking: whether thinking can be asked for, by its variable `enable_thinking`."""

    def __init__(self, source: str, tokens: Mapping[str, str], origin: Path) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
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

    @classmethod
    def from_folder(cls, folder: Path) -> ChatTemplate:
        """chat_template.jinja, chat_template.json, or the field of tokenizer_config.json; else the
        common one."""
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
        return cls(source if isinstance(source, str) else DEFAULT, tokens, path)

    def render(
        self,
        messages: Sequence[ChatMessage],
        *,
        ask: bool = True,
        lists: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> list[TemplateText | UserText]:
        """The conversation in order. lists: contents are lists of parts, as for models that see.
        variables: of the template, by the client. Raises `RequestError` if it refuses them."""
        written: list[str] = []

        def mark(text: str) -> str:
            written.append(text)
            return f"\ue000{len(written) - 1}\ue001"

        def content(message: ChatMessage) -> str | list[dict[str, str]]:
            if not lists:
                texts = [part.text for part in message.parts if isinstance(part, TextPart)]
                return "\n".join(map(mark, texts))
            parts = []
            for part in message.parts:
                if isinstance(part, TextPart):
                    parts.append({"type": "text", "text": mark(part.text)})
                else:
                    parts.append({"type": "video" if isinstance(part, VideoPart) else "image"})
            return parts

        given = [{"role": message.role, "content": content(message)} for message in messages]
        try:
            text = self._template.render(
                **{**self._tokens, **(variables or {})},
                messages=given,
                add_generation_prompt=ask,
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise RequestError(
                "invalid_value", f"messages: the model's chat template refused them: {error}"
            ) from error
        pieces: list[TemplateText | UserText] = []
        for i, piece in enumerate(_MARK.split(text)):
            if i % 2 == 0:
                pieces.append(TemplateText(piece))
            elif int(piece) < len(written):
                pieces.append(UserText(written[int(piece)]))
        return [piece for piece in pieces if piece.text]


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    # Jinja's own escapes HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)

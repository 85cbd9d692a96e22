"""What is to be embedded or compared, in every form that clients have for it, checked before any
picture is loaded. Every error is an `ApiError` (400) with the path of what is wrong.

    "a text"     [1, 2, 3] (tokens)     {"content": "a text" or parts, as in a chat}
    {"text": …, "image": …}, either or both; an image is a URL, or base64
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lookhear.engine.messages import TextPart
from lookhear.gateway.chat.completions.messages import parse_message, parse_messages
from lookhear.gateway.chat.lines import Line, Pointer, check_media
from lookhear.gateway.chat.refusals import text_of, unicode, wrong_type
from lookhear.gateway.checks.answers import INT32
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.http.errors import wrong

MAX_INPUTS = 2048
FORMS = "a text, or an object with content, text or image"
_URLS = ("data:", "http:", "https:")


@dataclass(frozen=True, slots=True)
class Given:
    """One input. path: in the request. lines: its message, or, of a conversation, all of them.
    tokens: ids instead."""

    path: str
    lines: list[Line] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    is_conversation: bool = False

    @property
    def text(self) -> str:
        """Its words, without its pictures."""
        parts = [part for line in self.lines for part in line.parts]
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read in it."""
        parts = [part for line in self.lines for part in line.parts]
        said = any(not isinstance(part, TextPart) or part.text for part in parts)
        return not self.tokens and not said


def parse_inputs(
    value: object,
    path: str,
    max_media: int,
    *,
    tokens: bool = False,
    empty: bool = True,
    splits: bool = False,
) -> list[Given]:
    """Several, or the only one. tokens: whether they may be ids. empty: whether a text may be.
    splits: whether the parts of an only object are inputs of their own, as vLLM has documents.
    max_media: media parts, at most."""
    if value is None:
        code = "missing_required_parameter"
        raise wrong(path, f"{FORMS}, or a list of these", "nothing", code=code)
    given = _several(value, path, tokens=tokens, splits=splits)
    for one in given:
        if not empty and one.is_empty:
            raise wrong(one.path, "a text that is not empty", '""')
    check_media([line for one in given for line in one.lines], max_media)
    return given


def parse_conversation(messages: object, max_media: int) -> list[Given]:
    """The messages of a chat, as one input."""
    return [Given("messages", parse_messages(messages, max_media), is_conversation=True)]


def _several(value: object, path: str, *, tokens: bool, splits: bool) -> list[Given]:
    if splits and isinstance(value, dict) and isinstance(value.get("content"), list):
        parts = value["content"]
        _check_number(parts, f"{path}.content")
        whole = parse_message(_user(parts), path)
        return [
            Given(where, [Line("user", [part], [where], where)])
            for part, where in zip(whole.parts, whole.paths, strict=True)
        ]
    if not isinstance(value, list) or (tokens and value and _is_number(value[0])):
        return [_one(value, path, tokens=tokens)]
    _check_number(value, path)
    return [_one(entry, f"{path}[{i}]", tokens=tokens) for i, entry in enumerate(value)]


def _check_number(value: Sequence[object], path: str) -> None:
    if not value:
        raise wrong(path, "one input at least", "an empty list")
    if len(value) > MAX_INPUTS:
        raise wrong(path, f"at most {MAX_INPUTS} inputs", str(len(value)))


def _one(value: object, path: str, *, tokens: bool) -> Given:
    if isinstance(value, str):
        return Given(path, [_line([TextPart(unicode(value, path))] if value else [], path)])
    if isinstance(value, list) and tokens:
        return Given(path, tokens=_ids(value, path))
    if not isinstance(value, dict):
        raise wrong_type(path, FORMS, value)
    if "content" in value:
        return Given(path, [parse_message(_user(value["content"]), path)])
    parts: list[TextPart | Pointer] = []
    if value.get("image") is not None:
        where = f"{path}.image"
        image = text_of(value, "image", path)
        url = image if image.startswith(_URLS) else f"data:;base64,{image}"
        parts.append(Pointer("image", url, where, where))
    if value.get("text") is not None:
        parts.append(TextPart(text_of(value, "text", path)))
    if not parts:
        raise wrong(path, FORMS, shown(value))
    return Given(path, [_line(parts, path)])


def _line(parts: list[TextPart | Pointer], path: str) -> Line:
    return Line("user", parts, [path] * len(parts), path)


def _user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ids(value: list[object], path: str) -> list[int]:
    for i, token in enumerate(value):
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < INT32:
            raise wrong(f"{path}[{i}]", "a token id", shown(token))
    if not value:
        raise wrong(path, "one token at least", "an empty list")
    return [int(token) for token in value if isinstance(token, int)]

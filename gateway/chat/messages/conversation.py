"""The messages of Anthropic's API, checked before anything they point at is loaded.

A message of blocks becomes lines: a result of a tool is one by itself, and what else the user says
is one. Every error is an `ApiError` (400) with the path of what is wrong.
"""

from __future__ import annotations

import json
from typing import Any

from lookhear.engine.messages import TextPart, ToolCall
from lookhear.gateway.chat.lines import Line, Pointer, check_continued, check_media
from lookhear.gateway.chat.refusals import text_of, unicode, unsupported, wrong_type
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.tools import check_arguments
from lookhear.gateway.http.errors import wrong

Json = dict[str, Any]

MAX_CALLS = 128  # of one message
USERS = ("text", "image", "document", "search_result", "tool_result")
ASSISTANTS = ("text", "thinking", "redacted_thinking", "tool_use")
IN_RESULTS = ("text", "image", "document", "search_result")
KEPT_NOWHERE = "no files are stored here"


def parse_conversation(system: object, messages: object, max_media: int) -> list[Line]:
    """max_media: media parts, at most. Raises ApiError."""
    if messages is None:
        raise wrong("messages", "a list of messages", "nothing", code="missing_required_parameter")
    if not isinstance(messages, list):
        raise wrong_type("messages", "a list of messages", messages)
    if not messages:
        raise wrong("messages", "at least one message", "an empty list")
    lines = _system(system, "system")
    called: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if not isinstance(message, dict):
            raise wrong_type(path, "an object with role and content", message)
        match message.get("role"):
            case "user":
                lines += _question(message.get("content"), path, called)
            case "assistant":
                said = _answer(message.get("content"), path)
                called.update(call.id for call in said.calls)
                if said.parts or said.calls:
                    lines.append(said)
            case "system":
                lines += _system(message.get("content"), f"{path}.content")
            case role:
                raise wrong(f"{path}.role", "user or assistant", shown(role))
    if lines and lines[-1].role == "assistant":
        check_continued(lines)
        _check_end(lines[-1])
    if not any(line.role != "system" for line in lines):
        raise wrong("messages", "something to answer", "no text")
    check_media(lines, max_media)
    return lines


def _check_end(said: Line) -> None:
    """As it is at Anthropic's: few words begin behind a space, to a model."""
    text = said.parts[-1]
    if isinstance(text, TextPart) and text.text != text.text.rstrip():
        expected = "a text that does not end in white space, if the answer goes on with it"
        raise wrong(said.paths[-1], expected, shown(text.text[-20:]))


def _system(value: object, path: str) -> list[Line]:
    if value is None or value == "" or value == []:
        return []
    parts, paths = _texts(value, path, ("text",))
    return [Line("system", parts, paths, path)]


def _texts(
    value: object, path: str, kinds: tuple[str, ...]
) -> tuple[list[TextPart | Pointer], list[str]]:
    """-> the parts of what may be a text or a list of blocks of those kinds, and their paths."""
    if isinstance(value, str):
        return [TextPart(unicode(value, path))], [path]
    parts: list[TextPart | Pointer] = []
    paths: list[str] = []
    for block, where in _blocks(value, path, kinds):
        more = _user_part(block, where)
        parts += more
        paths += [where] * len(more)
    return parts, paths


def _blocks(value: object, path: str, kinds: tuple[str, ...]) -> list[tuple[Json, str]]:
    if not isinstance(value, list):
        raise wrong_type(path, "a string or a list of blocks", value)
    found = []
    for index, block in enumerate(value):
        where = f"{path}[{index}]"
        if not isinstance(block, dict):
            raise wrong_type(where, "an object with a type", block)
        if block.get("type") not in kinds:
            raise wrong(f"{where}.type", f"one of {', '.join(kinds)}", shown(block.get("type")))
        found.append((block, where))
    return found


def _question(content: object, path: str, called: set[str]) -> list[Line]:
    where = f"{path}.content"
    if isinstance(content, str):
        return [Line("user", [TextPart(unicode(content, where))], [where], path)]
    lines: list[Line] = []
    if content == []:
        raise wrong(where, "at least one block", "an empty list")
    for block, place in _blocks(content, where, USERS):
        if block["type"] == "tool_result":
            lines.append(_result(block, place, called))
            continue
        if not lines or lines[-1].role != "user":
            lines.append(Line("user", [], [], path))
        for part in _user_part(block, place):
            lines[-1].parts.append(part)
            lines[-1].paths.append(place)
    return lines


def _result(block: Json, path: str, called: set[str]) -> Line:
    """is_error: said in front, since no chat template has a place for it."""
    id = text_of(block, "tool_use_id", path)
    if id not in called:
        expected = "the id of a tool_use in a message before"
        raise wrong(f"{path}.tool_use_id", expected, shown(id))
    given = block.get("content")
    parts, paths = _texts([] if given is None else given, f"{path}.content", IN_RESULTS)
    if block.get("is_error") is True:
        parts, paths = [TextPart("Error: "), *parts], [path, *paths]
    if not parts:
        parts, paths = [TextPart("")], [path]
    return Line("tool", parts, paths, path, call=id)


def _answer(content: object, path: str) -> Line:
    where = f"{path}.content"
    if isinstance(content, str):
        text = unicode(content, where)
        return Line("assistant", [TextPart(text)] if text else [], [where] if text else [], path)
    said, thoughts = Line("assistant", [], [], path), list[str]()
    for block, place in _blocks(content, where, ASSISTANTS):
        match block["type"]:
            case "text":
                said.parts.append(TextPart(text_of(block, "text", place)))
                said.paths.append(place)
            case "thinking":
                thoughts.append(text_of(block, "thinking", place))
            case "tool_use":
                said.calls.append(_call(block, place))
            case _:  # what nobody can read
                pass
    if len(said.calls) > MAX_CALLS:
        raise wrong(where, f"at most {MAX_CALLS} calls of tools", str(len(said.calls)))
    thinking = "".join(thoughts)
    return Line("assistant", said.parts, said.paths, path, said.calls, thinking=thinking)


def _call(block: Json, path: str) -> ToolCall:
    given, where = block.get("input"), f"{path}.input"
    if not isinstance(given, dict):
        raise wrong_type(where, "an object", given)
    arguments = json.dumps(given, ensure_ascii=False)
    try:
        check_arguments(arguments)
    except ValueError as error:
        raise wrong(where, "an object of JSON", str(error)) from None
    return ToolCall(text_of(block, "id", path), text_of(block, "name", path), arguments)


def _user_part(block: Json, path: str) -> list[TextPart | Pointer]:
    """One part; more of what is made of blocks."""
    if block["type"] == "text":
        return [TextPart(text_of(block, "text", path))]
    if block["type"] == "search_result":
        found = f"{text_of(block, 'title', path)}\n{text_of(block, 'source', path)}\n"
        return [TextPart(found), *_texts(block.get("content"), f"{path}.content", ("text",))[0]]
    source, where = block.get("source"), f"{path}.source"
    if not isinstance(source, dict):
        raise wrong_type(where, "an object with a type", source)
    kind = source.get("type")
    if kind == "file":
        raise unsupported(where, KEPT_NOWHERE, source.get("file_id"))
    if block["type"] == "image":
        return [_image(source, kind, path, where)]
    title = block.get("title")
    head = [TextPart(unicode(title, f"{path}.title") + "\n")] if isinstance(title, str) else []
    match kind:
        case "text":
            return [*head, TextPart(text_of(source, "data", where))]
        case "content":
            inner = _texts(source.get("content"), f"{where}.content", ("text",))[0]
            return [*head, *inner]
        case _:
            expected = "text or content, since no other documents are read here"
            raise wrong(f"{where}.type", expected, shown(kind), code="unsupported_content")


def _image(source: Json, kind: object, path: str, where: str) -> Pointer:
    match kind:
        case "base64":
            type = text_of(source, "media_type", where)
            if not type.startswith("image/"):
                raise wrong(f"{where}.media_type", "a type of image", shown(type))
            url = f"data:image/*;base64,{text_of(source, 'data', where)}"
            return Pointer("image", url, path, f"{where}.data")
        case "url":
            return Pointer("image", text_of(source, "url", where), path, f"{where}.url")
        case _:
            raise wrong(f"{where}.type", "base64 or url", shown(kind))

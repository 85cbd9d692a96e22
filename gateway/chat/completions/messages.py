"""The messages of a chat completion, checked before anything they point at is loaded.

Every error is an `ApiError` (400) with the path of what is wrong: "messages[0].content[1].type".
"""

from __future__ import annotations

from functools import partial
from typing import Any

from lookhear.engine.messages import TextPart, ToolCall
from lookhear.gateway.chat.lines import DETAILS, Kind, Line, Pointer, check_media
from lookhear.gateway.chat.refusals import text_of, unicode, unsupported, wrong_type
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.tools import readable_arguments
from lookhear.gateway.http.errors import wrong

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
MAX_CALLS = 128  # of one message
TYPES = ("text", "image_url", "video_url", "audio_url", "input_audio", "prompt_embeds")

POINTERS: dict[str, Kind] = {"image_url": "image", "video_url": "video", "audio_url": "audio"}


def parse_messages(messages: object, max_media: int) -> list[Line]:
    """Check the messages. max_media: media parts, at most. Raises ApiError."""
    if messages is None:
        raise wrong("messages", "a list of messages", "nothing", code="missing_required_parameter")
    if not isinstance(messages, list):
        raise wrong_type("messages", "a list of messages", messages)
    if not messages:
        raise wrong("messages", "at least one message", "an empty list")
    lines: list[Line] = []
    called: set[str] = set()
    for index, message in enumerate(messages):
        line = parse_message(message, f"messages[{index}]")
        if line.call is not None and line.call not in called:
            expected = "the id of a tool call in a message before"
            raise wrong(f"messages[{index}].tool_call_id", expected, shown(line.call))
        called.update(call.id for call in line.calls)
        lines.append(line)
    check_media(lines, max_media)
    return lines


def parse_message(message: object, path: str) -> Line:
    """Check one message, which stands at that path. Raises ApiError."""
    if not isinstance(message, dict):
        raise wrong_type(path, "an object with role and content", message)
    given = message.get("role")
    if given == "function":
        raise unsupported(f"{path}.role", 'functions are tools now, say "tool"', given)
    if not isinstance(given, str) or given not in ROLES:
        raise wrong(f"{path}.role", "system, developer, user, assistant or tool", shown(given))
    role = ROLES[given]
    for name in ("function_call", "audio"):
        if message.get(name) is not None:
            why = "functions are tools now, and nothing speaks here"
            raise unsupported(f"{path}.{name}", why, message[name])
    calls = parse_calls(message.get("tool_calls"), f"{path}.tool_calls")
    if calls and role != "assistant":
        raise wrong(f"{path}.tool_calls", f"none in a message of the {role}", f"{len(calls)}")
    call = text_of(message, "tool_call_id", path) if role == "tool" else None
    thinking = message.get("reasoning_content") if role == "assistant" else None
    line = partial(
        Line, role, path=path, calls=calls, call=call, thinking=_thinking(thinking, path)
    )
    content, where = message.get("content"), f"{path}.content"
    if content is None and calls:
        return line([], [])
    if content is None and role == "assistant" and message.get("refusal"):
        content, where = message["refusal"], f"{path}.refusal"
    if isinstance(content, str):
        is_empty = bool(calls) and not content
        return line([], []) if is_empty else line([TextPart(unicode(content, where))], [where])
    if not isinstance(content, list):
        raise wrong_type(where, "a string or a list of parts", content)
    if not content:
        raise wrong(where, "at least one part", "an empty list")
    places = [f"{where}[{index}]" for index in range(len(content))]
    parts = [_part(part, place, role) for part, place in zip(content, places, strict=True)]
    paths = [part.path if isinstance(part, Pointer) else place
             for part, place in zip(parts, places, strict=True)]  # fmt: skip
    return line(parts, paths)


def parse_calls(value: object, path: str) -> list[ToolCall]:
    """Calls of tools in a message of an assistant's. Raises ApiError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(path, "a list of tool calls", value)
    if len(value) > MAX_CALLS:
        raise wrong(path, f"at most {MAX_CALLS} tool calls", str(len(value)))
    return [_call(call, f"{path}[{index}]") for index, call in enumerate(value)]


def _call(value: object, path: str) -> ToolCall:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object with id and function", value)
    if value.get("type", "function") != "function":
        raise wrong(f"{path}.type", '"function"', shown(value["type"]))
    function, where = value.get("function"), f"{path}.function"
    if not isinstance(function, dict):
        raise wrong_type(where, "an object with name and arguments", function)
    try:
        arguments = readable_arguments(text_of(function, "arguments", where))
    except ValueError as error:
        raise wrong(f"{where}.arguments", "a JSON object as text", str(error)) from None
    return ToolCall(text_of(value, "id", path), text_of(function, "name", where), arguments)


def _thinking(value: object, path: str) -> str:
    """Of an answer before, which clients hand back. Other servers' kinds of it are ignored."""
    return unicode(value, f"{path}.reasoning_content") if isinstance(value, str) else ""


def _part(part: object, path: str, role: str) -> TextPart | Pointer:
    if not isinstance(part, dict):
        raise wrong_type(path, "an object with a type", part)
    type = part.get("type")
    if type == "refusal" and role == "assistant":  # what a model would not say is text too
        return TextPart(text_of(part, "refusal", path))
    if type not in TYPES:
        raise wrong(f"{path}.type", f"one of {', '.join(TYPES)}", shown(type))
    if type == "text":
        return TextPart(text_of(part, "text", path))
    if type == "prompt_embeds":  # they stand for a text, whoever says it
        data = text_of(part, "data", path)
        return Pointer("prompt_embeds", data, path, f"{path}.data", is_base64=True)
    if role != "user" and not (role == "tool" and type == "image_url"):
        texts = '"text" or "image_url"' if role == "tool" else '"text"'
        raise wrong(f"{path}.type", f"{texts} in a message of the {role}", shown(type))
    if type == "input_audio":
        return _recording(part, path)
    return _pointer(part, str(type), path)


def _pointer(part: dict[str, Any], type: str, path: str) -> Pointer:
    """`image_url` and its like: an object with the URL, or just the URL."""
    target, where = part.get(type), f"{path}.{type}"
    kind = POINTERS[type]
    if isinstance(target, str):
        return Pointer(kind, unicode(target, where), path, where)
    if not isinstance(target, dict):
        raise wrong_type(where, "an object with a url", target)
    detail = target.get("detail") or "auto"
    if kind == "image" and (not isinstance(detail, str) or detail not in DETAILS):
        raise wrong(f"{where}.detail", "auto, low or high", shown(detail))
    url = text_of(target, "url", where)
    return Pointer(kind, url, path, f"{where}.url", DETAILS[detail] if kind == "image" else "auto")


def _recording(part: dict[str, Any], path: str) -> Pointer:
    """format: what the sender calls it; the bytes decide."""
    target, where = part.get("input_audio"), f"{path}.input_audio"
    if not isinstance(target, dict):
        raise wrong_type(where, "an object with data and format", target)
    format = target.get("format")
    if format is not None and not isinstance(format, str):
        raise wrong_type(f"{where}.format", "a string", format)
    data = text_of(target, "data", where)
    return Pointer("audio", data, path, f"{where}.data", is_base64=True)

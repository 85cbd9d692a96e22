"""Items of the Responses API as a conversation.

Every error is an `ApiError` (400) with the path of what is wrong: "input[0].content[1].image_url";
items of a response before are named by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookhear.engine.messages import TextPart, ToolCall
from lookhear.gateway.chat.lines import DETAILS, Kind, Line, Pointer
from lookhear.gateway.chat.refusals import text_of, unicode, unsupported
from lookhear.gateway.chat.responses.items import ROLES, Json
from lookhear.gateway.chat.responses.tools import joined
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.tools import readable_arguments
from lookhear.gateway.http.errors import wrong
from lookhear.media.base import from_base64

MAX_CALLS = 128  # of one answer
MAX_NAME = 8192  # characters of a file's name or URL that are looked at
MEDIA: dict[str, Kind] = {"image": "image", "video": "video", "audio": "audio"}
TEXTS = ("application/json", "application/xml", "application/yaml")  # and text/*
SUFFIXES: dict[str, tuple[str, ...]] = {
    "image/*": ("jpg", "jpeg", "png", "webp", "gif"),
    "video/*": ("mp4", "webm", "mkv", "mov"),
    "audio/*": ("wav", "flac", "mp3", "ogg", "opus", "m4a"),
    "text/*": ("txt", "md", "csv", "json", "xml", "yaml", "yml", "html", "py", "js", "log"),
}
FILES = "an image, a video, a recording or a text"


def lines_of(items: Sequence[Json], paths: Sequence[str], instructions: str | None) -> list[Line]:
    """What an answer consists of - thinking, text, calls - is one line again. Raises ApiError."""
    lines: list[Line] = []
    if instructions:
        lines.append(Line("system", [TextPart(instructions)], ["instructions"], "instructions"))
    answered = {wire["call_id"] for wire in items if wire["type"] == "function_call_output"}
    called: set[str] = set()
    said: Line | None = None  # to which what follows may belong
    for wire, path in zip(items, paths, strict=True):
        kind, role = wire["type"], ROLES.get(wire.get("role", ""))
        is_cut = kind == "function_call" and wire["status"] == "incomplete"
        if is_cut and wire["call_id"] not in answered:
            continue
        if kind == "function_call_output":
            said = None
            lines.append(_output(wire, path, called))
        elif kind == "message" and role != "assistant":
            said = None
            lines.append(_question(wire, path, str(role)))
        else:
            if said is None or (kind != "function_call" and (said.parts or said.calls)):
                said = Line("assistant", [], [], path)
                lines.append(said)
            if kind == "reasoning":  # of which there may be several in a row
                more = "".join(thought["text"] for thought in wire["content"])
                said = lines[-1] = replace(said, thinking=said.thinking + more)
            elif kind == "function_call":
                call = _call(wire, path)
                called.add(call.id)
                said.calls.append(call)
                if len(said.calls) > MAX_CALLS:
                    raise wrong(path, f"at most {MAX_CALLS} calls in a row", "more")
            elif kind == "message":
                for index, part in enumerate(wire["content"]):
                    where = f"{path}.content[{index}]"
                    text = part["refusal"] if part["type"] == "refusal" else part["text"]
                    if text:
                        said.parts.append(TextPart(unicode(text, where)))
                        said.paths.append(where)
    # Thinking that led to nothing, and empty answers.
    return [line for line in lines if line.role != "assistant" or line.parts or line.calls]


def _question(wire: Json, path: str, role: str) -> Line:
    content, where = wire["content"], f"{path}.content"
    if not content:
        raise wrong(where, "at least one part", "an empty list")
    places = [f"{where}[{index}]" for index in range(len(content))]
    parts = [_part(part, place, role) for part, place in zip(content, places, strict=True)]
    paths = [part.path if isinstance(part, Pointer) else place
             for part, place in zip(parts, places, strict=True)]  # fmt: skip
    return Line(role, parts, paths, path)


def _output(wire: Json, path: str, called: set[str]) -> Line:
    id = wire["call_id"]
    if id not in called:
        expected = "the call_id of a function_call before"
        raise wrong(f"{path}.call_id", expected, shown(id), code="invalid_call_id")
    output, where = wire["output"], f"{path}.output"
    if isinstance(output, str):
        return Line("tool", [TextPart(unicode(output, where))], [where], path, call=id)
    places = [f"{where}[{index}]" for index in range(len(output))]
    parts = [_part(part, place, "tool") for part, place in zip(output, places, strict=True)]
    for part in parts:
        if isinstance(part, Pointer) and part.kind != "image":
            expected = "texts and images in an output of a function"
            raise wrong(part.part, expected, _noun(part), code="unsupported_content")
    return Line("tool", parts or [TextPart("")], places or [where], path, call=id)


def _noun(pointer: Pointer) -> str:
    return "a recording" if pointer.kind == "audio" else f"a {pointer.kind}"


def _call(wire: Json, path: str) -> ToolCall:
    try:
        arguments = readable_arguments(wire["arguments"])
    except ValueError as error:
        raise wrong(f"{path}.arguments", "a JSON object as text", str(error)) from None
    return ToolCall(wire["call_id"], joined(wire.get("namespace"), wire["name"]), arguments)


def _part(part: Json, path: str, role: str) -> TextPart | Pointer:
    kind = part["type"]
    if kind == "input_text":
        return TextPart(part["text"])
    if kind == "input_file" and "file_id" not in part and (text := _text_file(part, path)):
        return text
    if role not in ("user", "tool"):
        raise wrong(f"{path}.type", f"input_text in a message of the {role}", shown(kind))
    if part.get("file_id") is not None:
        raise unsupported(f"{path}.file_id", "no files are stored here", part["file_id"])
    if kind == "input_image":
        detail = part["detail"]
        if detail not in DETAILS:
            raise wrong(f"{path}.detail", "auto, low, high or original", shown(detail))
        url = text_of(part, "image_url", path)
        return Pointer("image", url, path, f"{path}.image_url", DETAILS[detail])
    if kind == "input_audio":
        data, where = part["input_audio"]["data"], f"{path}.input_audio.data"
        return Pointer("audio", data, path, where, is_base64=True)
    return _file(part, path)


def _file(part: Json, path: str) -> Pointer:
    """Media in a file; which, is told by its type or name."""
    field = "file_url" if "file_data" not in part else "file_data"
    url, type = text_of(part, field, path), _type(part)
    kind = MEDIA.get(type.partition("/")[0])
    if kind is None:
        name = part.get("filename") or part.get("file_url")
        what = type or (shown(name) if name else "a file that has neither a type nor a name")
        raise wrong(f"{path}.{field}", FILES, what, code="unsupported_content")
    if field == "file_data" and not url.startswith("data:"):
        url = f"data:{kind}/*;base64,{url}"
    return Pointer(kind, url, path, f"{path}.{field}")


def _text_file(part: Json, path: str) -> TextPart | None:
    type = _type(part)
    if not (type.startswith("text/") or type in TEXTS) or "file_data" not in part:
        return None
    where, (_, comma, data) = f"{path}.file_data", part["file_data"].partition(",")
    try:
        text = from_base64(data if comma else part["file_data"]).decode()
    except ValueError as error:
        raise wrong(where, "base64 of a text in UTF-8", str(error)) from None
    return TextPart(text)


def _type(part: Json) -> str:
    """The media type of a file, as far as it is told; `image/*` where its name tells no more."""
    data: str = part.get("file_data", "")
    if data.startswith("data:"):
        return data[len("data:") : MAX_NAME].partition(",")[0].partition(";")[0].strip().lower()
    name = str(part.get("filename") or part.get("file_url", ""))[:MAX_NAME]
    suffix = name.partition("?")[0].rpartition(".")[2].lower()
    return next((type for type, known in SUFFIXES.items() if suffix in known), "")

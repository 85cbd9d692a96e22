"""Items of the Responses API: what a client gives, as it is kept and listed.

Every error is an `ApiError` (400) with the path of what is wrong: "input[0].content[1].type".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lookhear.gateway.chat.refusals import text_of, wrong_type
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.http.errors import ApiError, wrong

Json = dict[str, Any]

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
TYPES = ("message", "function_call", "function_call_output", "reasoning", "item_reference")
# The fields of each kind of part that are kept.
PARTS = {
    "input_text": ("text",),
    "input_image": ("image_url", "file_id", "detail"),
    "input_file": ("file_data", "file_url", "file_id", "filename"),
    "input_audio": ("input_audio",),
}
SAID = ("output_text", "refusal", "input_text")  # parts of an assistant's message
OVERHEAD = 1024  # bytes of an item besides its texts, about


@dataclass(frozen=True, slots=True)
class Item:
    """wire: as the API lists it, with an id of ours. size: bytes that it takes, about."""

    wire: Json
    size: int

    @property
    def id(self) -> str:
        """Never the same as another one's."""
        return str(self.wire["id"])


def item(wire: Json) -> Item:
    """Of a finished object."""
    return Item(wire, len(json.dumps(wire)) + OVERHEAD)


def parse_input(
    value: object, find: Callable[[str], Item | None], ids: Callable[[str], str]
) -> tuple[list[Item], list[str]]:
    """-> (items, their paths). find: an item that is kept, by its id. What is in them is checked
    by `lines_of`. Raises ApiError."""
    if value is None:
        expected = "a text or a list of items"
        raise wrong("input", expected, "nothing", code="missing_required_parameter")
    if isinstance(value, str):
        return [item(_message({"role": "user", "content": value}, "input", ids))], ["input"]
    if not isinstance(value, list):
        raise wrong_type("input", "a text or a list of items", value)
    if not value:
        raise wrong("input", "at least one item", "an empty list")
    paths = [f"input[{index}]" for index in range(len(value))]
    return [_item(given, path, find, ids) for given, path in zip(value, paths, strict=True)], paths


def _item(
    given: object, path: str, find: Callable[[str], Item | None], ids: Callable[[str], str]
) -> Item:
    if not isinstance(given, dict):
        raise wrong_type(path, "an item", given)
    kind = given.get("type")
    if kind is None:
        kind = "message" if "role" in given else "item_reference"
    match kind:
        case "message":
            return item(_message(given, path, ids))
        case "function_call":
            fields = {name: text_of(given, name, path) for name in ("call_id", "name", "arguments")}
            if given.get("namespace") is not None:
                fields["namespace"] = text_of(given, "namespace", path)
            is_whole = given.get("status") != "incomplete"
            status = "completed" if is_whole else "incomplete"
            return item({"id": ids("fc"), "type": kind, **fields, "status": status})
        case "function_call_output":
            output = given.get("output")
            if not isinstance(output, str):
                output = _parts(output, f"{path}.output", PARTS)
            call = text_of(given, "call_id", path)
            told = {"id": ids("fco"), "type": kind, "call_id": call, "output": output}
            return item({**told, "status": "completed"})
        case "reasoning":
            return item(_reasoning(given, path, ids))
        case "item_reference":
            id = text_of(given, "id", path)
            found = find(id)
            if found is None:
                expected = "the id of an item of a response that is kept"
                raise wrong(f"{path}.id", expected, shown(id), code="item_not_found")
            return found
        case _:
            raise wrong(f"{path}.type", f"one of {', '.join(TYPES)}", shown(kind))


def _message(given: Json, path: str, ids: Callable[[str], str]) -> Json:
    role = given.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise wrong(f"{path}.role", "system, developer, user or assistant", shown(role))
    content, where = given.get("content"), f"{path}.content"
    is_said = role == "assistant"
    if isinstance(content, str):
        content = [{"type": SAID[0] if is_said else "input_text", "text": content}]
    if is_said:
        status = "incomplete" if given.get("status") == "incomplete" else "completed"
        parts = _said(content, where)
    else:
        status, parts = "completed", _parts(content, where, PARTS)
    head = {"id": ids("msg"), "type": "message", "role": role, "status": status}
    return {**head, "content": parts}


def _said(content: object, path: str) -> list[Json]:
    """Of an assistant; annotations of other servers' answers are nothing that a model reads."""
    kept: list[Json] = []
    for part in _parts(content, path, {"output_text": ("text",), "refusal": ("refusal",)} | PARTS):
        kind = part["type"]
        if kind not in SAID:
            at = f"{path}[{len(kept)}].type"
            raise wrong(at, "output_text in a message of the assistant", shown(kind))
        if kind == "refusal":
            kept.append(part)
        else:
            said = {"type": "output_text", "text": part["text"], "annotations": []}
            kept.append({**said, "logprobs": []})
    return kept


def _parts(content: object, path: str, known: Mapping[str, tuple[str, ...]]) -> list[Json]:
    """Those fields of the parts that are read."""
    if not isinstance(content, list):
        raise wrong_type(path, "a string or a list of parts", content)
    parts = []
    for index, part in enumerate(content):
        where = f"{path}[{index}]"
        if not isinstance(part, dict):
            raise wrong_type(where, "an object with a type", part)
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in known:
            raise wrong(f"{where}.type", f"one of {', '.join(known)}", shown(kind))
        kept = {name: part[name] for name in known[kind] if part.get(name) is not None}
        if kind == "input_audio":
            kept = {"input_audio": _recording(kept, where)}
        else:
            for name in kept.keys() | {"text", "refusal"} & set(known[kind]):
                text_of(kept, name, where)
        if kind == "input_image":
            kept = {"detail": "auto", "image_url": None, **kept}
        parts.append({"type": kind, **kept})
    return parts


def _recording(part: Json, path: str) -> Json:
    given, where = part.get("input_audio"), f"{path}.input_audio"
    if not isinstance(given, dict):
        raise wrong_type(where, "an object with data and format", given)
    fields = ("data", *(["format"] if given.get("format") is not None else []))
    return {name: text_of(given, name, where) for name in fields}


def _reasoning(given: Json, path: str, ids: Callable[[str], str]) -> Json:
    """Thinking that was not shown (encrypted, or a summary of it) is none of this model's."""
    told = given.get("content")
    known = {"reasoning_text": ("text",), "text": ("text",)}
    parts = [] if told is None else _parts(told, f"{path}.content", known)
    texts = [{"type": "reasoning_text", "text": part["text"]} for part in parts]
    return {"id": ids("rs"), "type": "reasoning", "summary": [], "content": texts}


def bad_previous(id: str, why: str) -> ApiError:
    """previous_response_id names nothing that could be gone on with."""
    message = f"previous_response_id: expected the id of a response that {why}, got {shown(id)}"
    code = "previous_response_not_found"
    return ApiError(400, message, code=code, param="previous_response_id")

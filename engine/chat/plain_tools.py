"""Tools told in plain text, for chat templates that know none: what they are, calls and outputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from lookhear.engine.markup.call_family import CallFamily
from lookhear.engine.messages import ChatMessage, Part, TextPart, Tool


def as_plain_text(
    messages: Sequence[ChatMessage], tools: Sequence[Tool], family: CallFamily
) -> list[ChatMessage]:
    """The same conversation without calls, outputs of tools as words of the user."""
    plain = [_message(message, family) for message in messages]
    if not tools:
        return plain
    told = TextPart(_told(tools, family))
    if plain and plain[0].role == "system":
        return [replace(plain[0], parts=[*plain[0].parts, TextPart("\n\n"), told]), *plain[1:]]
    return [ChatMessage("system", [told]), *plain]


def _told(tools: Sequence[Tool], family: CallFamily) -> str:
    lines = [
        json.dumps(
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.parameters),
            },
            ensure_ascii=False,
        )
        for tool in tools
    ]
    return "\n".join(
        [
            "You can call tools. They are, one on each line:",
            *lines,
            "To call one, write its name and its arguments so:",
            family.written("name", "{}"),
        ]
    )


def _message(message: ChatMessage, family: CallFamily) -> ChatMessage:
    if message.role == "tool":
        around = [TextPart("<tool_response>\n"), *message.parts, TextPart("\n</tool_response>")]
        return ChatMessage("user", _joined(around))
    if not message.calls:
        return message
    calls = [family.written(call.name, call.arguments) for call in message.calls]
    return ChatMessage(
        message.role,
        [*message.parts, TextPart(family.between.join(calls))],
        thinking=message.thinking,
    )


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Texts that follow each other are one: templates may put line breaks between parts."""
    joined: list[Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(before, TextPart):
            joined[-1] = TextPart(before.text + part.text)
        else:
            joined.append(part)
    return joined

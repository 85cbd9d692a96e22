"""Anthropic's Messages, `POST /v1/messages`, and the tokens of one, `/v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lookhear.gateway.chat.dialect import Asked
from lookhear.gateway.chat.messages.conversation import parse_conversation
from lookhear.gateway.chat.messages.parameters import FIELDS, parse_parameters
from lookhear.gateway.chat.messages.rendering import Reply
from lookhear.gateway.chat.token_count import counted


class Messages:
    """ids: makes a fresh id of a prefix."""

    def __init__(self, ids: Callable[[str], str]) -> None:
        self._ids = ids

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`. Nothing is kept, so nobody owns anything."""
        return self.read(body, max_media)

    def read(self, body: dict[str, Any], max_media: int, *, counts: bool = False) -> Asked:
        """See `parse`, and `parse_parameters`."""
        asked = parse_parameters(body, counts=counts)
        lines = parse_conversation(body.get("system"), body.get("messages"), max_media)
        return Asked(
            lines=lines,
            model=asked.model,
            settings=replace(asked.settings(), continues=lines[-1].role == "assistant"),
            reply=partial(Reply, ids=self._ids, most=asked.max_tokens),
            fields=FIELDS,
            is_streamed=bool(asked.stream),
            ignored=asked.ignored,
        )


class MessageTokens:
    """What is asked is the prompt of a message."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`."""
        return counted(self._messages.read(body, max_media, counts=True))

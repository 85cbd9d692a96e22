"""Anthropic's Messages, `POST /v1/messages`, and the tokens of one, `/v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from lookhear.engine.messages import AnswerStarted
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.dialect import Asked, Json
from lookhear.gateway.chat.messages.conversation import parse_conversation
from lookhear.gateway.chat.messages.parameters import FIELDS, parse_parameters
from lookhear.gateway.chat.messages.rendering import Reply
from lookhear.gateway.http.errors import ApiError


class Messages:
    """ids: makes a fresh id of a prefix."""

    def __init__(self, ids: Callable[[str], str]) -> None:
        self._ids = ids

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`. Nothing is kept, so nobody owns anything."""
        asked = parse_parameters(body)
        return Asked(
            lines=parse_conversation(body.get("system"), body.get("messages"), max_media),
            model=asked.model,
            settings=asked.settings(),
            reply=partial(Reply, ids=self._ids),
            fields=FIELDS,
            is_streamed=bool(asked.stream),
            ignored=asked.ignored,
        )


class TokenCounts:
    """What is asked is the prompt of a message. The engine reads it, as it would for an answer of
    one token; then it is in the cache for the message itself."""

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`."""
        asked = parse_parameters(body, counts=True)
        return Asked(
            lines=parse_conversation(body.get("system"), body.get("messages"), max_media),
            model=asked.model,
            settings=replace(asked.settings(), max_tokens=1),
            reply=lambda card: _Count(),
            fields=FIELDS,
            ignored=asked.ignored,
        )


class _Count:
    """A `Reply` that says how long the prompt is."""

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The body."""
        started = next(event for _, event in events if isinstance(event, AnswerStarted))
        return {"input_tokens": started.usage.prompt}

    def of(self, choice: int, event: ChoiceEvent) -> list[str]:
        """It is never streamed."""
        return []

    def end(self) -> list[str]:
        """See `of`."""
        return []

    def failed(self, error: ApiError) -> list[str]:
        """See `of`."""
        return []

    def close(self) -> None:
        """Nothing of it is kept."""

"""How long the prompt of a request is, in the words of an API that can be asked for that alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lookhear.engine.messages import AnswerStarted
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.dialect import Asked, Json
from lookhear.gateway.http.errors import ApiError


def counted(asked: Asked, **about: str) -> Asked:
    """The same prompt, for its length. The engine reads it, as it would for an answer of one token;
    then it is in the cache for the request itself. about: what else the body says."""
    settings = replace(asked.settings, max_tokens=1)
    count = TokenCount(about)
    return replace(
        asked,
        settings=settings,
        reply=lambda card: count,
        choices=1,
        is_streamed=False,
        counts=True,
    )


class TokenCount:
    """A `Reply`. about: fields of the body beside the count."""

    def __init__(self, about: Json) -> None:
        self._about = about

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The body."""
        started = next(event for _, event in events if isinstance(event, AnswerStarted))
        return {**self._about, "input_tokens": started.usage.prompt}

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

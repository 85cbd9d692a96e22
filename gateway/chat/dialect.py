"""The seam between the chat path and the APIs that it is asked by.

A dialect turns a body into an `Asked`, and what the engine says into the objects and events of its
API. It knows nothing of engines, pictures or sockets; the path behind it knows no dialect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from lookhear.engine.messages import AnswerSettings, ModelCard
from lookhear.gateway.chat.answers import ChoiceEvent, Fields
from lookhear.gateway.chat.lines import Line
from lookhear.gateway.http.errors import ApiError

Json = dict[str, Any]


class Reply(Protocol):
    """The answer to one request, in the words of its API. Frames are server-sent events."""

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The body of an answer that is not streamed, from all that was said."""

    def of(self, choice: int, event: ChoiceEvent) -> Iterable[str]:
        """The frames that one event becomes, in a stream."""

    def end(self) -> Iterable[str]:
        """The frames that follow when every choice is complete."""

    def failed(self, error: ApiError) -> Iterable[str]:
        """The frames that end a stream which cannot go on: it is too late for a status."""

    def close(self) -> None:
        """The end of the request, for whatever reason."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. model: as the client named it, None: it named none. settings: of the first
    choice, but for the model. reply: makes the answer, by the model that gives it. fields: the name
    in the body of each setting that an engine's refusal may begin with, and of `messages`. ignored:
    what was set and changes nothing. truncates: rather an answer that has not seen the beginning of
    a conversation than none. are_apart: each line is a question, with its share of the choices.
    seeds_anew: the seeds of each question begin with that of the settings, as if it was alone.
    counts: how long the prompt is, and no more, also if it is too long."""

    lines: list[Line]
    model: str | None
    settings: AnswerSettings
    reply: Callable[[ModelCard], Reply]
    fields: Fields
    choices: int = 1
    is_streamed: bool = False
    ignored: tuple[str, ...] = ()
    truncates: bool = False
    are_apart: bool = False
    seeds_anew: bool = False
    counts: bool = False


class Dialect(Protocol):
    """An API on the chat path; there is one of it in a gateway."""

    def parse(self, body: Json, max_media: int, owner: str) -> Asked:
        """Runs in a thread. max_media: media parts, at most. owner: whose key it was asked with;
        what one owner has, no other gets. Raises ApiError."""


def frame(data: Json, name: str = "") -> str:
    """A server-sent event. name: of its kind, where the API has such names outside of the data."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"

"""OpenAI's Chat Completions, `POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lookhear.engine.messages import ModelCard
from lookhear.gateway.chat.completions.messages import parse_messages
from lookhear.gateway.chat.completions.parameters import Parameters, parse_parameters
from lookhear.gateway.chat.completions.rendering import Reply, heading
from lookhear.gateway.chat.dialect import Asked
from lookhear.gateway.chat.lines import check_continued


class Completions:
    """ids: makes a fresh id of a prefix. now: Unix seconds."""

    def __init__(self, ids: Callable[[str], str], now: Callable[[], float]) -> None:
        self._ids = ids
        self._now = now

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`. Nothing is kept, so nobody owns anything."""
        asked = parse_parameters(body)
        lines = parse_messages(body.get("messages"), max_media)
        if asked.continue_final_message:
            check_continued(lines)
        choices = asked.n or 1
        return Asked(
            lines=lines,
            model=asked.model,
            settings=asked.settings(),
            reply=self._replying(asked, choices),
            fields=asked.fields,
            choices=choices,
            is_streamed=bool(asked.stream),
            ignored=asked.ignored,
        )

    def _replying(self, asked: Parameters, choices: int) -> Callable[[ModelCard], Reply]:
        include_usage = asked.include_usage

        def reply(card: ModelCard) -> Reply:
            head = heading(self._ids("chatcmpl").replace("_", "-", 1), int(self._now()), card)
            return Reply(head, choices, lambda: self._ids("call"), include_usage=include_usage)

        return reply

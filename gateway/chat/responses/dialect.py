"""OpenAI's Responses, `POST /v1/responses`, and the tokens of what is asked, `.../input_tokens`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lookhear.engine.messages import ModelCard
from lookhear.gateway.chat.dialect import Asked
from lookhear.gateway.chat.lines import check_media
from lookhear.gateway.chat.responses.conversation import lines_of
from lookhear.gateway.chat.responses.items import Item, bad_previous, parse_input
from lookhear.gateway.chat.responses.parameters import Parameters, parse_parameters
from lookhear.gateway.chat.responses.rendering import Reply, heading
from lookhear.gateway.chat.responses.store import Store
from lookhear.gateway.chat.token_count import counted
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.http.errors import ApiError

NOT_KEPT = "this server keeps no responses, since the next request may reach another of its workers"


class Responses:
    """store: None if nothing can be kept. ids: makes a fresh id of a prefix. now: Unix seconds."""

    def __init__(
        self, store: Store | None, ids: Callable[[str], str], now: Callable[[], float]
    ) -> None:
        self._store = store
        self._ids = ids
        self._now = now

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`."""
        asked, store = parse_parameters(body), self._store
        if store is None and asked.store:
            raise _not_kept("store", "false or nothing", shown(True))
        if store is None and asked.previous_response_id is not None:
            told = shown(asked.previous_response_id)
            raise _not_kept("previous_response_id", "none", told)
        before = self._before(asked, owner)

        def find(id: str) -> Item | None:
            return None if store is None else store.item(id, owner)

        # Who goes on with a response may have nothing to add: the model is asked again.
        new, places = list[Item](), list[str]()
        if not before or body.get("input") not in (None, []):
            new, places = parse_input(body.get("input"), find, self._ids)
        items, paths = [*before, *new], [*(each.id for each in before), *places]
        lines = lines_of([each.wire for each in items], paths, asked.instructions)
        check_media(lines, max_media)
        is_kept = store is not None and asked.store is not False
        return Asked(
            lines=lines,
            model=asked.model,
            settings=asked.settings(),
            reply=self._replying(asked, owner, items if is_kept else None),
            fields=asked.fields,
            is_streamed=bool(asked.stream),
            ignored=asked.ignored,
            truncates=asked.truncation == "auto",
        )

    def _before(self, asked: Parameters, owner: str) -> Sequence[Item]:
        """The conversation that is gone on with."""
        id = asked.previous_response_id
        if id is None or self._store is None:
            return ()
        kept = self._store.get(id, owner)
        if kept is None:
            raise bad_previous(id, "is kept here")
        if kept.output is None:
            raise bad_previous(id, "is complete")
        return kept.items

    def _replying(
        self, asked: Parameters, owner: str, items: list[Item] | None
    ) -> Callable[[ModelCard], Reply]:
        """items: of the conversation, if the response is to be kept."""
        store, given, called = self._store, asked.as_given(), asked.called

        def reply(card: ModelCard) -> Reply:
            id = self._ids("resp")
            created = int(self._now())
            head = heading(id, created, card, given, store=items is not None)
            if store is None or items is None:
                return Reply(
                    head, self._ids, self._now, lambda response: None, lambda: None, called
                )
            if not store.add(owner, head, items):
                head["store"] = False
            return Reply(
                head, self._ids, self._now, store.complete, lambda: store.abandon(id), called
            )

        return reply


class InputTokens:
    """What is asked is the prompt of a response."""

    def __init__(self, responses: Responses) -> None:
        self._responses = responses

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`."""
        asked = self._responses.parse(body, max_media, owner)
        return counted(asked, object="response.input_tokens")


def _not_kept(param: str, expected: str, got: str) -> ApiError:
    message = f"{param}: expected {expected}, {NOT_KEPT}; got {got}"
    return ApiError(400, message, code="unsupported_parameter", param=param)

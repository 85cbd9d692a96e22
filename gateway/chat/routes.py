"""The paths of the chat path's dialects."""

from __future__ import annotations

from functools import partial

from starlette.routing import Route

from lookhear.gateway.chat.completions.dialect import Completions
from lookhear.gateway.chat.completions.texts import TextCompletions
from lookhear.gateway.chat.dialect import Dialect
from lookhear.gateway.chat.endpoint import answer
from lookhear.gateway.chat.messages.dialect import Messages, MessageTokens
from lookhear.gateway.chat.places import AnswerPlaces
from lookhear.gateway.chat.responses.dialect import InputTokens, Responses
from lookhear.gateway.chat.responses.kept import KeptResponses
from lookhear.gateway.chat.responses.store import Store
from lookhear.gateway.services.services import Services


def chat_routes(gateway: Services) -> list[Route]:
    """All of them, for the gateway that these are the services of."""
    # A response lives in one process; the next request for it may reach another.
    store = None if gateway.siblings.number else Store(gateway.clock)
    responses, messages = Responses(store, gateway.ids, gateway.now), Messages(gateway.ids)
    dialects: dict[str, Dialect] = {
        "/v1/chat/completions": Completions(gateway.ids, gateway.now),
        "/v1/completions": TextCompletions(gateway.ids, gateway.now),
        "/v1/responses": responses,
        "/v1/responses/input_tokens": InputTokens(responses),
        "/v1/messages": messages,
        "/v1/messages/count_tokens": MessageTokens(messages),
    }
    kept, places = KeptResponses(store), AnswerPlaces(gateway.engine)
    return [
        *(
            Route(path, partial(answer, dialect=dialect, places=places), methods=["POST"])
            for path, dialect in dialects.items()
        ),
        Route("/v1/responses/compact", kept.compact, methods=["POST"]),
        Route("/v1/responses/{id}", kept.one, methods=["GET", "DELETE"]),
        Route("/v1/responses/{id}/cancel", kept.cancel, methods=["POST"]),
        Route("/v1/responses/{id}/input_items", kept.input_items, methods=["GET"]),
    ]

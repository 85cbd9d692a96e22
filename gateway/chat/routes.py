"""The paths of the chat path's dialects."""

from __future__ import annotations

from functools import partial

from starlette.routing import Route

from lookhear.gateway.chat.completions.dialect import Completions
from lookhear.gateway.chat.endpoint import answer
from lookhear.gateway.services.services import Services


def chat_routes(gateway: Services) -> list[Route]:
    """All of them, for the gateway that these are the services of."""
    completions = partial(answer, dialect=Completions(gateway.ids, gateway.now))
    return [Route("/v1/chat/completions", completions, methods=["POST"])]

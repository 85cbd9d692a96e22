"""Served models by what a session wants of them."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, shown


def speech_models(models: Sequence[ModelCard]) -> list[ModelCard]:
    """Choose those that transcribe."""
    return [card for card in models if card.can("transcribe")]


def chat_models(models: Sequence[ModelCard]) -> list[ModelCard]:
    """Choose those that answer."""
    return [card for card in models if card.can("chat")]


def chat_model(name: str | None, models: Sequence[ModelCard], event_id: str | None) -> ModelCard:
    """A served model that answers; the first one for None. Raises ProtocolError."""
    cards = chat_models(models)
    for card in cards:
        if name is None or card.id == name:
            return card
    served = ", ".join(shown(card.id) for card in cards)
    raise ProtocolError(
        f"session.model: expected a served model that answers ({served}), got {shown(name)}",
        code="model_not_found",
        param="session.model",
        event_id=event_id,
    )


def find_model(
    name: str, models: Sequence[ModelCard], param: str, event_id: str | None
) -> ModelCard:
    """Find the served model of that name. Raises ProtocolError about the field `param`."""
    for card in models:
        if card.id == name:
            return card
    served = ", ".join(shown(card.id) for card in models)
    raise ProtocolError(
        f"{param}: expected a served model ({served}), got {shown(name)}",
        code="model_not_found",
        param=param,
        event_id=event_id,
    )


def language_code(language: str | None) -> str | None:
    """ "en-US" and "EN" mean "en"; "" means "detect it"."""
    return (language or "").replace("_", "-").split("-")[0].lower() or None


def check_language(language: str, card: ModelCard, param: str, event_id: str | None) -> None:
    """A model that lists no languages has just one, and takes whatever the client calls it."""
    if card.languages and language not in card.languages:
        raise ProtocolError(
            f"{param}: expected one of {', '.join(card.languages)}; got {shown(language)}",
            code="invalid_language",
            param=param,
            event_id=event_id,
        )

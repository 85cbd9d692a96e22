"""Served models by what a session wants of them."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, shown, wrong


def speech_models(models: Sequence[ModelCard]) -> list[ModelCard]:
    """Choose those that transcribe."""
    return [card for card in models if card.can("transcribe")]


def chat_models(models: Sequence[ModelCard]) -> list[ModelCard]:
    """Choose those that answer."""
    return [card for card in models if card.can("chat")]


def chat_model(name: str | None, models: Sequence[ModelCard]) -> ModelCard:
    """A served model that answers; the first one for None. Raises ProtocolError."""
    cards = chat_models(models)
    if name is None and cards:
        return cards[0]
    return _named(name, cards, "session.model", "a served model that answers")


def find_model(name: str, models: Sequence[ModelCard], param: str) -> ModelCard:
    """Find the served model of that name. Raises ProtocolError about the field `param`."""
    return _named(name, models, param, "a served model")


def _named(name: str | None, models: Sequence[ModelCard], param: str, what: str) -> ModelCard:
    for card in models:
        if card.id == name:
            return card
    served = ", ".join(shown(card.id) for card in models)
    raise wrong(param, f"{what} ({served})", shown(name), "model_not_found")


def language_code(language: str | None) -> str | None:
    """ "en-US" and "EN" mean "en"; "" means "detect it"."""
    return (language or "").replace("_", "-").split("-")[0].lower() or None


def check_language(language: str, card: ModelCard, param: str) -> None:
    """A model that lists no languages has just one, and takes whatever the client calls it."""
    if card.languages and language not in card.languages:
        raise ProtocolError(
            f"{param}: expected one of {', '.join(card.languages)}; got {shown(language)}",
            code="invalid_language",
            param=param,
        )

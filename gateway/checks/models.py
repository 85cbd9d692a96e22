"""Served models by what a session wants of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, shown, wrong

# Why nobody can be asked who speaks: as a code, and behind what was expected.
NO_WHO, NONE = "no_diariser", ": no model here tells speakers apart (no diariser)"


def speech_models(models: Sequence[ModelCard]) -> list[ModelCard]:
    """Choose those that transcribe."""
    return [card for card in models if card.can("transcribe")]


def chat_models(models: Sequence[ModelCard]) -> list[ModelCard]:
    """Choose those that answer."""
    return [card for card in models if card.can("chat")]


def diariser(models: Sequence[ModelCard]) -> ModelCard | None:
    """The first that tells speakers apart; None: none does."""
    return next((card for card in models if card.can("diarise")), None)


def choose(
    name: str | None, able: Sequence[ModelCard], models: Sequence[ModelCard]
) -> ModelCard | None:
    """The one of `able` that is called so: by its name, by an alias, or, if none of all `models`
    is, the first that stands in; not for an adapter. None asks for the first."""
    if name is None:
        return next(iter(able), None)
    for card in able:
        if card.id == name:
            return card
    if any(card.is_called(name) for card in models):
        return next((card for card in able if name in card.aliases), None)
    if names_adapter(name, models):
        return None
    return next((card for card in able if card.stands_in), None)


def names_adapter(name: str, models: Sequence[ModelCard]) -> bool:
    """Whether it is a name that an adapter of one of them would have. Whoever asks for one that is
    not loaded wants no answer of the model without it."""
    return any(name.startswith(f"{card.id}:") for card in models if card.can("adapters"))


def with_names(
    models: Sequence[ModelCard], aliases: Sequence[tuple[str, str]], *, is_strict: bool
) -> list[ModelCard]:
    """The same models, each with the names it is asked by. aliases: (name, id of the model). One
    with an adapter is also called as that was loaded, as vLLM's clients have it, unless others
    are."""
    named = dict(aliases)
    taken = {*named, *(card.id for card in models)}
    for card in models:
        own = card.id.removeprefix(f"{card.parent}:")
        if card.parent and own not in taken:
            named.setdefault(own, card.id)
    return [
        replace(
            card,
            aliases=[name for name, model in named.items() if model == card.id],
            stands_in=not is_strict,
        )
        for card in models
    ]


def chat_model(name: str | None, models: Sequence[ModelCard]) -> ModelCard:
    """A served model that answers; the first one for None. Raises ProtocolError."""
    return _named(name, models, "session.model", "chat")


def find_model(
    name: str, models: Sequence[ModelCard], param: str, ability: str | None = None
) -> ModelCard:
    """Find the served model that is called so and has the ability. Raises ProtocolError about the
    field `param`."""
    return _named(name, models, param, ability)


def _named(
    name: str | None, models: Sequence[ModelCard], param: str, ability: str | None
) -> ModelCard:
    able = [card for card in models if ability is None or card.can(ability)]
    card = choose(name, able, models)
    if card is not None:
        return card
    what = "a served model that answers" if ability == "chat" else "a served model"
    served = ", ".join(shown(card.id) for card in able)
    raise wrong(param, f"{what} ({served})", shown(name), "model_not_found")


def check_language(language: str, card: ModelCard, param: str) -> None:
    """A model that lists no languages takes whatever the client calls its own."""
    if card.languages and language not in card.languages:
        raise ProtocolError(
            f"{param}: expected one of {', '.join(card.languages)}; got {shown(language)}",
            code="invalid_language",
            param=param,
        )

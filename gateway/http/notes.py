"""Headers of an answer that say what was made of the request."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.engine.messages import ModelCard

ANSWERED_BY = "x-lookhear-model"
IGNORED = "x-lookhear-ignored"


def notes(card: ModelCard, ignored: Sequence[str] = ()) -> dict[str, str]:
    """card: of the model that was asked, whatever the client called it. ignored: fields that the
    client has set and that changed nothing."""
    told = {ANSWERED_BY: card.id} if card.id.isascii() and card.id.isprintable() else {}
    return told | ({IGNORED: ", ".join(ignored)} if ignored else {})

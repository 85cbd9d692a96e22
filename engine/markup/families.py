"""The families of models whose calls are known, and which of them a chat template belongs to."""

from __future__ import annotations

from lookhear.engine.markup.call_family import CallFamily
from lookhear.engine.markup.hermes import HERMES
from lookhear.engine.markup.mistral import MISTRAL

# The first whose mark is in a template; the first of all where none is.
FAMILIES = (HERMES, MISTRAL)


def family_of(template: str) -> CallFamily:
    """template: the source of a checkpoint's chat template."""
    return next((family for family in FAMILIES if family.mark in template), FAMILIES[0])

"""What an answer keeps to, of all that its client may set, and what is to blame for it. Pure."""

from __future__ import annotations

from lookhear.engine.messages import AnswerSettings
from lookhear.engine.sampling.grammar import Choices, Form, Pattern


def form_of(settings: AnswerSettings) -> Form | None:
    """What the answer keeps to."""
    if settings.choices:
        return Choices(tuple(settings.choices))
    return settings.schema if settings.pattern is None else Pattern(settings.pattern)


def blamed(settings: AnswerSettings, text: str) -> str:
    """An error about a form, by the setting that had it; without any it is that of the calls."""
    if not text.startswith("schema:"):
        return text
    match form_of(settings):
        case Choices():
            name = "choices"
        case Pattern():
            name = "pattern"
        case None:
            name = "tools"
        case _:
            name = "schema"
    return name + text.removeprefix("schema")

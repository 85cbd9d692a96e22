"""What the turns of a session leave to those after them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.engine.speech.session_language import SessionLanguage


class SessionMemory:
    """language: the belief about it. tokens: the last ones said, for prompts."""

    def __init__(self) -> None:
        self.language = SessionLanguage()
        self.tokens: tuple[int, ...] = ()

    def listen(self, candidates: Sequence[str]) -> None:
        """A turn begins. candidates: the languages that it may be in; empty: any."""
        if self.language.candidates != frozenset(candidates):
            self.language = SessionLanguage(candidates)

    def say(self, tokens: Sequence[int], most: int) -> None:
        """These were said; so many of the last are kept at most."""
        self.tokens = (*self.tokens, *tokens)[-most:] if most else ()

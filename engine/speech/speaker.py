"""One session's turns, one after another, and what each leaves to the next. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from lookhear.engine.speech.earlier import EarlierSpeech
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.turn import Turn


class Speaker:
    """Turns are heard in the order in which they began: the next one begins to be heard when all
    was said of the one before it, so that a client reads them in order, and a turn knows in which
    language those before it were. Their audio is taken as it comes."""

    def __init__(self, earlier: EarlierSpeech) -> None:
        """earlier: what its turns leave to the next."""
        self.earlier = earlier
        self._language = SessionLanguage()
        self._turns: deque[tuple[str, Turn]] = deque()

    def language(self, candidates: Sequence[str]) -> SessionLanguage:
        """Of the session. candidates: as its latest turn has them."""
        if self._language.candidates != frozenset(candidates):
            self._language = self._language.among(candidates)
        return self._language

    def recall(self, language: SessionLanguage) -> None:
        """What it was in, as another engine knew it."""
        self._language = language

    @property
    def head(self) -> tuple[str, Turn] | None:
        """The turn that is heard now, with its key."""
        return self._turns[0] if self._turns else None

    def add(self, key: str, turn: Turn) -> None:
        """Behind all others."""
        assert self.turn(key) is None, key
        self._turns.append((key, turn))

    def turn(self, key: str) -> Turn | None:
        """One that is open, or waits."""
        for name, turn in self._turns:
            if name == key:
                return turn
        return None

    def remove(self, key: str) -> None:
        """Over, or given up; nothing if it is not here."""
        self._turns = deque(item for item in self._turns if item[0] != key)

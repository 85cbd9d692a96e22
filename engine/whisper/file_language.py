"""The language of a recording, found in the first window in which somebody speaks. Pure.

What the start token says of a second or two of speech is often wrong, and a text in the wrong
language is nonsense, which the model hardly believes itself. So where other languages are nearly as
likely, the window is heard in them too, and that text is kept which is the likeliest together with
its language: P(language | audio) P(text | language, audio).
"""

from __future__ import annotations

from collections.abc import Mapping

from lookhear.engine.core.request import Result
from lookhear.engine.speech.language_trial import rivals
from lookhear.engine.whisper.attempts import Attempt


class FileLanguage:
    """Of one window. asked: token of the language to hear it in next; None: whatever it seems."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._is_over = False
        self._left: list[int] = []
        self._priors: Mapping[int, float] = {}
        self._texts: list[tuple[float, Attempt]] = []

    def take(self, result: Result, attempt: Attempt) -> Attempt | None:
        """attempt: what `result` says, at temperature 0 until the trial is over. Returns the text
        to go on with, which from then on is what comes; None: hear it in another language."""
        if self._is_over:
            return attempt
        if not self._texts and attempt.heard.tokens:
            self._priors, self._left = result.languages, rivals(result.languages)
        prior = 0.0 if attempt.language is None else self._priors.get(attempt.language, 0.0)
        self._texts.append((prior + sum(result.logprobs), attempt))
        if self._left:
            self.asked = self._left.pop(0)
            return None
        # Nothing at all would be the likeliest to be said.
        _, best = max(
            self._texts, key=lambda one: (bool(one[1].heard.tokens), not one[1].loops, one[0])
        )
        self._is_over, self.asked = True, best.language
        return best

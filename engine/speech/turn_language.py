"""Which language a turn is in: what its looks say, on top of what the session is in. Pure.

What a checkpoint says of the language of the same voice changes from look to look, and people with
an accent it takes for their neighbours for seconds. So looks are averaged, and the text has a say,
too: written in the wrong language it is one that the model hardly believes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.language_trial import LanguageTrial
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.session_language import (
    LONG,
    SEVERAL,
    SURE,
    TINY,
    Heard,
    SessionLanguage,
    probabilities,
)
from lookhear.engine.speech.text.hypothesis import Hypothesis

SHORT = SAMPLE_RATE  # audio of which no look counts beyond the next one
# How much the text says of its language (added to the logarithm of the odds) by the mean
# log-probability of its tokens: SLOPE * (mean + MIDDLE), within LEAST and MOST. Whisper base, 680
# looks at recordings of people: in the right language the median is -0.4, in a wrong one -0.9.
SLOPE, MIDDLE, LEAST, MOST = 3.5, 0.9, -1.5, 3.0
# A turn that is heard so much less clearly than the voice usually is (`SessionLanguage.doubt`) is
# heard for its language again, if there is so much more of it, before anything is told.
DOUBT, AGAIN = 2.5, SAMPLE_RATE // 4
FEW = 4  # tokens that say something


def text_evidence(logprobs: Sequence[float]) -> float:
    """Of a text (natural logarithms, one per token) for the language that it is written in."""
    mean = sum(logprobs) / len(logprobs)
    return min(max(SLOPE * (mean + MIDDLE), LEAST), MOST)


def averaged(before: Heard, new: Heard, share: float = 0.5) -> dict[str, float]:
    """The mean of log-probabilities, for languages that both have. share: of the new ones."""
    means = {
        code: before[code] + share * (new[code] - before[code]) for code in new if code in before
    }
    total = math.log(sum(math.exp(value) for value in means.values())) if means else 0.0
    return {code: value - total for code, value in means.items()} or dict(new)


class TurnLanguage:
    """session: what the session is in. heard: of the languages, by all looks; empty before there
    was one. checks: times that the turn was heard for its language alone."""

    def __init__(self, session: SessionLanguage, heard: Heard, checks: int = 0) -> None:
        self.session = session
        self.checks = checks
        self._sound: Heard = dict(heard)
        self._first: Heard = {}
        self._checked = 0  # of how much audio it was
        self._is_doubted = False  # as of then
        self._seconds = 0.0  # that the last look heard
        self._is_short = not heard
        self._text: tuple[str | None, float] = (None, 0.0)  # language of the last one, evidence
        self._said: list[float] = []  # log-probabilities of committed tokens
        self._trial = LanguageTrial()
        self._is_joined = False  # heard together with the turns before it
        self.heard: Heard = dict(heard)

    def wants_check(
        self, num_samples: int, at: Sequence[int], *, is_urgent: bool, is_due: bool
    ) -> bool:
        """Whether it is time to hear so much audio for its language alone. at: of how much that is
        done, each once. is_urgent: somebody waits, who has finished speaking. is_due: there is text
        to be told, the first of the turn."""
        if (is_urgent or is_due) and self.is_doubted(num_samples):
            return True
        if is_due or (self.checks and is_urgent):
            return False
        return self.checks < len(at) and num_samples >= at[self.checks]

    def check(self, new: Hypothesis, num_samples: int, num_before: int = 0) -> None:
        """It was heard for its language alone: without a text, the longer the more it counts. What
        is written behind others is believed in their language, whatever is spoken. num_before:
        samples that were said before, with which it was heard; what it is in follows from what
        they are."""
        if num_before:
            self._is_joined = True
            self.session.join(new.languages, (num_before + num_samples) / SAMPLE_RATE)
            return
        self.checks += 1
        self._checked = num_samples
        seconds = num_samples / SAMPLE_RATE
        self._hear(new.languages, num_samples, seconds / (seconds + self._seconds))
        self._is_doubted = self.session.doubt(self._seconds, self._sound) >= DOUBT

    def wants_joined(self, num_before: int, num_samples: int) -> bool:
        """Whether so much audio, of somebody who has finished speaking, is to be heard for its
        language together with what was said before it: both are short."""
        if self._is_joined or self._said or self.session.is_solid or not self.session.belief:
            return False
        is_short = num_samples < LONG * SAMPLE_RATE
        return is_short and num_before > 0 and num_before + num_samples >= SEVERAL * SAMPLE_RATE

    def is_doubted(self, num_samples: int) -> bool:
        """Whether so much audio is to be heard for its language, as less was unlike the voice."""
        return self._is_doubted and num_samples >= self._checked + AGAIN

    def say(self, logprobs: Sequence[float]) -> None:
        """These tokens were committed: they are part of the text that later looks speak for. What
        is behind them alone, a word or two, and those in doubt, would unsay it."""
        self._said.extend(logprobs)

    def asked(self, is_over: bool) -> str | None:
        """What the next look is to be written in, to be compared with others. None: whatever it
        seems. is_over: somebody has finished speaking."""
        if not is_over:  # what was heard is of less than there is now
            self._trial.drop()
        return self._trial.asked

    def hear(self, new: Hypothesis, num_samples: int, *, is_over: bool) -> Hypothesis | None:
        """A look at so much audio. is_over: somebody has finished speaking, and nothing was told:
        then, if no language is clear, it is heard in several. Returns the likeliest text; None: it
        is to be heard in what is `asked`, first."""
        if self._trial.asked is None:
            self.add(new, num_samples)
            if not (is_over and new.languages and self.known() is None):
                return new
        best = self._trial.take(new, self._by_sound())
        code = None if best is None else best.language
        if best is not None and code is not None and code in self._sound:
            evidence = text_evidence(best.logprobs) if best.logprobs else 0.0
            self._text = code, evidence
            self.heard = {**self._sound, code: max(self._sound.values()) + max(0.0, evidence)}
        return best

    def _by_sound(self) -> dict[str, float]:
        """Log-probability of each language, whatever the text says."""
        posterior = self._posterior(self._sound) if self._sound else {}
        return {code: math.log(max(p, TINY)) for code, p in posterior.items()}

    def add(self, new: Hypothesis, num_samples: int) -> None:
        """A look at so much audio of the turn by itself; others say nothing of the language."""
        if not new.languages:
            return
        self._hear(new.languages, num_samples)
        text = [*self._said, *new.logprobs]
        if len(text) >= FEW:
            self._text = new.language, text_evidence(text)
        language, evidence = self._text
        if language is not None and language in self.heard:
            self.heard = {**self.heard, language: self.heard[language] + evidence}

    def _hear(self, sound: Heard, num_samples: int, share: float = 0.5) -> None:
        if not sound:
            return
        is_alone = not self._sound or self._is_short
        self._sound = sound if is_alone else averaged(self._sound, sound, share)
        self._is_short, self._seconds = num_samples < SHORT, num_samples / SAMPLE_RATE
        if not self._is_short and not self._first:
            self._first = sound
        self.heard = dict(self._sound)

    def is_of(self, new: Hypothesis, stretch: Stretch) -> bool:
        """Whether a text of a stretch is in the language of the turn, as far as that is known."""
        is_behind = bool(stretch.before.segments)
        if new.language is None or (new.languages and not is_behind):
            return new.language in (None, self.known())
        return bool(self.heard) or not is_behind

    def known(self) -> str | None:
        """ISO code; None where nothing is sure, and where a checkpoint has just one."""
        if not self.heard:
            return self.session.sure()
        posterior = self._posterior(self.heard)
        likeliest = max(posterior, key=posterior.__getitem__)
        return likeliest if posterior[likeliest] >= SURE else None

    def _posterior(self, heard: Heard) -> dict[str, float]:
        return self.session.posterior(heard, self._seconds, self._sound)

    def prior(self) -> SessionLanguage:
        """What the next look may expect, if those before it heard enough: then it is written in
        what the turn is in, once it is heard. Of looks at the same voice the mean counts, so beside
        one of them the session and the text count twice, and the sound before it once."""
        if self._is_short:
            return self.session
        language, evidence = self._text
        scores = {
            code: self._sound[code] + 2 * (value + (evidence if code == language else 0.0))
            for code, value in self.session.prior(
                list(self._sound), self._seconds, self._sound
            ).items()
        }
        return SessionLanguage(tuple(self.session.candidates), probabilities(scores))

    def conclude(self) -> None:
        """The turn is over."""
        self.session.conclude(self.heard, self._seconds, self._sound, self._first)

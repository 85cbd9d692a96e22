"""When a window is decoded again, and which of its texts is believed. Pure.

Source: openai/whisper `transcribe.py` (decode_with_fallback): a text that repeats itself or that
the model hardly believes is sampled again, ever more freely. One difference: people repeat
themselves too (announcements do little else), so where it is known that somebody speaks a text that
compresses well is suspicious only if it goes on and on, says one phrase several times in a row, or
is more than anybody says in the time.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.recognizer import loop_room
from lookhear.engine.speech.text.hypothesis import Hypothesis

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MOST_COMPRESSION = 2.4
LEAST_LOGPROB = -1.0
# Below it a text of a short window is heard again in a full one: one text in ten in noise, one in
# twenty without (Whisper base, Spanish).
SURE_LOGPROB = -0.7
# Nobody says more characters in a second of speech: fast announcers reach 25. Some are given away,
# since voices are not found to the millisecond.
MOST_CHARACTERS = 35
SPARE_CHARACTERS = 35


def compression_ratio(text: str) -> float:
    """How much zlib makes of it: high for text that repeats itself."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0


def has_loop(tokens: Sequence[int], room: int = 0) -> bool:
    """Whether some phrase is said over and over: four times in a row, one token eight times, and in
    more than `room` tokens."""
    said = np.asarray(tokens)
    for n in range(1, len(said) // 4 + 1):
        longest = max(n * (7 if n == 1 else 3), room + 1 - n)
        run = 0
        for same in said[n:] == said[:-n]:
            run = run + 1 if same else 0
            if run >= longest:
                return True
    return False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One text of a window. heard: its tokens, less loops and what is said of silence. loops:
    whether it repeats itself, or goes on when the audio is over. avg_logprob: of a token, natural
    log. language: token id."""

    heard: Hypothesis
    loops: bool
    avg_logprob: float
    no_speech: float
    language: int | None
    temperature: float

    @classmethod
    def of(
        cls,
        result: Result,
        heard: Hypothesis,
        words: Sequence[int],
        text: str,
        temperature: float,
        *,
        spoken: float | None,
        is_beyond: bool = False,
    ) -> Attempt:
        """words: of heard, without its timestamps; text: what they are. spoken: seconds of it with
        speech; None: nobody knows. is_beyond: it tells of later times than there is audio."""
        is_cut = result.stop is StopReason.LENGTH
        room = 0 if spoken is None else loop_room(round(spoken * SAMPLE_RATE))
        loops = is_beyond or result.stop is StopReason.REPETITION or has_loop(words, room)
        if is_cut or spoken is None:
            loops = loops or compression_ratio(text) > MOST_COMPRESSION
        if spoken is not None:
            loops = loops or len(text) > MOST_CHARACTERS * spoken + SPARE_CHARACTERS
        mean = sum(result.logprobs) / len(result.logprobs) if result.logprobs else 0.0
        return cls(heard, loops, mean, result.no_speech_prob, result.language, temperature)

    @property
    def is_good(self) -> bool:
        """Whether it may be kept as it is. Silence is."""
        return not self.loops and (self.avg_logprob >= LEAST_LOGPROB or not self.heard.tokens)

    @property
    def is_sure(self) -> bool:
        """Whether there is a text, and a full window would hardly hear another."""
        return not self.loops and self.avg_logprob >= SURE_LOGPROB and bool(self.heard.tokens)


class Attempts:
    """At the windows of one recording. temperature: that was asked for; with 0 there are others."""

    def __init__(self, temperature: float) -> None:
        self._temperatures = (temperature,) if temperature > 0 else TEMPERATURES
        self._failed: list[Attempt] = []

    @property
    def count(self) -> int:
        """Texts of this window that were no good."""
        return len(self._failed)

    @property
    def temperature(self) -> float:
        """Of the next request."""
        return self._temperatures[self.count]

    def gives_up(self, kept: Attempt) -> bool:
        """Whether the text that is kept is no good either: it is a loop, or silence after loops."""
        is_last_resort = self._temperatures == TEMPERATURES and kept.temperature > 0
        return kept.loops or (is_last_resort and not kept.heard.tokens)

    def take(self, attempt: Attempt) -> Attempt | None:
        """The text of the window that is kept; None: try again."""
        if not attempt.is_good:
            self._failed.append(attempt)
            if self.count < len(self._temperatures):
                return None
            # None is good. Rather one that does not repeat itself, rather a likely one.
            attempt = max(self._failed, key=lambda one: (not one.loops, one.avg_logprob))
        self._failed = []
        return attempt

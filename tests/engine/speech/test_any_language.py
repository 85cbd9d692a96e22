"""Whatever is heard of the language of turns, and in whatever pieces they come: each is over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Result
from lookhear.engine.speech.earlier import EarlierSpeech
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import Speech
from tests.engine.speech.test_earlier import KEPT, LONGEST, STEP, take_turn

SPOKEN = 0.5  # seconds of a word
PIECES = (0.1, 0.5, 3.0, math.inf)  # seconds that come at once


class Heard(Speech):
    """Looks are in these languages, one after another, and then again from the first; None: in none
    more than in any other."""

    languages: Sequence[str | None] = ("en",)
    looks = 0

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        self.looks += 1
        most = 50 + 20 * self.duration
        assert self.looks < most, "the same is heard again and again"
        codes = self.vocabulary.languages
        heard = self.languages[self.looks % len(self.languages)]
        shares = [1e5 if code == heard else 1.0 for code in codes]
        languages = {1000 + i: math.log(s / sum(shares)) for i, s in enumerate(shares)}
        told, prior = request.language, request.language_prior
        if told is None:
            told = max(languages, key=lambda token: languages[token] + prior.get(token, 0.0))
        return replace(result, language=told, languages=languages)


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Heard], list[float]]:
    """Of one session, and the seconds of each that come at once. Most are in English."""
    said: list[Heard] = []
    for number in range(draw(st.integers(1, 4))):
        at, times = 0.3, []
        for _ in range(draw(st.sampled_from((1, 3, 8, 40)))):
            times.append((at, at + SPOKEN))
            at += SPOKEN + draw(st.sampled_from((0.05, 0.1, 0.9)))
        words = [f" {'abcd'[number]}{i}" for i in range(len(times))]
        turn = Heard(words, times, said[-1] if said else None)
        kinds = st.sampled_from(("en", "de", "fr", None))
        turn.languages = draw(st.just(("en",)) | st.lists(kinds, min_size=1, max_size=4))
        said.append(turn)
    return said, [draw(st.sampled_from(PIECES)) for _ in said]


@given(session=turns())
def test_every_turn_is_over(session: tuple[list[Heard], list[float]]) -> None:
    earlier, language = EarlierSpeech(LONGEST, KEPT, STEP), SessionLanguage()
    for speech, piece in zip(*session, strict=True):
        run = take_turn(speech, earlier, language, piece=min(piece, speech.duration))
        assert run.finish().text == run.committed

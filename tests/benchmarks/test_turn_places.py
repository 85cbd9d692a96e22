"""Between words, in a quiet moment: where `benchmarks.conversation.turn_ends` cuts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.in_process.turn_places import MOMENT, SEARCH, heard, known, quiet_places
from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.bench.recordings.session import Session
from lookhear.engine.messages import Event, FileTranscribed, Message, ModelCard, Word
from lookhear.media.voice.silero import SileroModel


class Hears:
    """An engine that hears these words in any file, a second each."""

    def __init__(self, text: str) -> None:
        self._words = [
            Word(word, float(second), second + 1.0, 1.0) for second, word in enumerate(text.split())
        ]
        self._events: list[Event] = []

    @property
    def has_work(self) -> bool:
        return bool(self._events)

    def submit(self, message: Message) -> None:
        self._events.append(FileTranscribed("places", "", "en", 9.0, words=self._words))

    def step(self) -> list[Event]:
        events, self._events = self._events, []
        return events


def session(text: str, loud: float = 0.5) -> Session:
    """A tone, with 40 ms of silence at each second."""
    words = tuple(SpokenWord(w, float(n), n + 1.0) for n, w in enumerate(text.split()))
    time = np.arange(len(words) * RATE) / RATE
    wave = loud * np.sin(2 * np.pi * 200.0 * time)
    wave[np.abs(time - np.round(time)) < 0.02] = 0.0
    return Session("one", (wave * 32767).astype("<i2"), text, words, "en")


def places(text: str, found: str) -> list[int]:
    """Whole seconds at which words end."""
    card = ModelCard("m", "whisper", ["en"], 0, 1)
    gaps = heard(session(text), Hears(found), card, SileroModel())  # type: ignore[arg-type]
    return [int(end) for end, _ in gaps]


def test_no_sentence_is_cut_behind_its_end() -> None:
    assert [end for end, _ in known(session('Say "yes." Then go: now'))] == [1.0, 3.0]


def test_words_are_cut_apart_where_both_were_heard_as_they_stand() -> None:
    assert places("one two three four", "One, TWO three. four") == [1, 2, 3]
    assert places("one two three four", "one too three four") == [3]
    assert places("canción del día hoy", "cancion del dia hoy") == [1, 2, 3]
    assert places("it ends. Here it goes", "it ends here it goes") == [1, 3, 4]
    assert places("one two", "") == []


@given(off=st.floats(-SEARCH, SEARCH), second=st.integers(1, 3))
def test_the_cut_is_in_the_quiet_moment_near_by(off: float, second: int) -> None:
    (found,) = quiet_places(session("a b c d"), [(second + off, second + off)])
    assert abs(found - second) <= 0.02 + MOMENT / 2


@given(off=st.floats(SEARCH + 0.04, 0.5 - 0.04))
def test_nobody_pauses_in_full_voice(off: float) -> None:
    assert quiet_places(session("a b c d"), [(1 + off, 1 + off)]) == []
    assert quiet_places(session("a b c d", loud=0.0), [(1.0, 1.0)]) == []

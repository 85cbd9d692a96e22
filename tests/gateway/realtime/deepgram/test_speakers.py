"""Who says each word of Deepgram's live wire, as far as is known when it is told."""

from __future__ import annotations

from typing import Any

from lookhear.engine.messages import (
    DiarisingFailed,
    ModelCard,
    SpeakersHeard,
    SpeakerTurn,
    TextCommitted,
    Word,
)
from lookhear.gateway.who_speaks import KEPT_SECONDS, LiveSpeakers
from tests.gateway.realtime.deepgram.listening import Listen
from tests.gateway.scripted import SESSION

HEARS = ModelCard("hears", "A", ["en"], 0, 1)
KNOWS = ModelCard("knows", "A", [], 0, 1, abilities=["diarise"])
ASKED = "interim_results=true&diarize=true"


def speakers(frame: dict[str, Any]) -> list[int]:
    return [word["speaker"] for word in frame["channel"]["alternatives"][0]["words"]]


def test_words_have_speakers_as_far_as_they_are_known() -> None:
    listen = Listen(ASKED, models=[HEARS, KNOWS])
    listen.talk(2.0)
    item = listen.begins()
    asked = [(message.model, message.begin) for message in listen.diarised]
    assert asked == [("knows", 0), ("knows", 32_000)], "silence too, and none is missing"
    words = [Word("Hello", 0.1, 0.5, 0.8), Word(" you", 0.6, 0.9, 0.8)]
    listen.text[item] += "Hello you"
    [interim] = listen.engine(TextCommitted(SESSION, item, "Hello you", None, words))
    assert speakers(interim) == [0, 0], "nothing is known yet"
    start = interim["channel"]["alternatives"][0]["words"][0]["start"] - 0.1
    over = [SpeakerTurn(0, start, start + 0.55)]
    still = [SpeakerTurn(1, start + 0.55, start + 0.9)]
    assert listen.engine(SpeakersHeard(SESSION, over, still, start + 0.9)) == []
    listen.stops()
    assert speakers(listen.complete(item)[0]) == [0, 1]


def test_what_is_not_asked_for_is_not_computed() -> None:
    listen = Listen("interim_results=true", models=[HEARS, KNOWS])
    listen.talk(1.0)
    assert not listen.diarised


def test_without_a_diariser_it_is_refused_by_name() -> None:
    listen = Listen(ASKED, models=[HEARS])
    assert "diarize" in str(listen.frames[0]), listen.frames


def test_without_times_of_words_it_is_refused_by_name() -> None:
    deaf = ModelCard("hears", "A", ["en"], 0, 1, has_word_times=False)
    listen = Listen(ASKED, models=[deaf, KNOWS])
    assert "diarize" in str(listen.frames[0]) and "word times" in str(listen.frames[0])


def test_a_diariser_that_fails_is_told_of_once_and_speech_goes_on() -> None:
    listen = Listen(ASKED, models=[HEARS, KNOWS])
    listen.talk(1.0)
    assert len(listen.diarised) == 1
    [error] = listen.engine(DiarisingFailed(SESSION, "audio_missing", "why"))
    assert error["type"] == "Error" and "why" in error["description"]
    item = listen.begins()
    listen.stops()
    assert len(listen.diarised) == 1
    assert listen.complete(item)


def test_what_is_remembered_is_bounded() -> None:
    known = LiveSpeakers()
    for second in range(0, 4000, 2):
        turn = SpeakerTurn(second % 3, float(second), second + 1.0)
        known.hear(SpeakersHeard(SESSION, [turn], [], second + 2.0))
        (word,) = known.named([Word("a", 0.2, 0.4, 1.0)], float(second))
        assert word.speaker == second % 3
    assert len(known._over) <= KEPT_SECONDS / 2 + 1

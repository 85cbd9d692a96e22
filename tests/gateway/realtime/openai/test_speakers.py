"""Who says the words of a session, on OpenAI's wire: in whatever order text and speakers become
known, the last that is told of a turn is what the speakers' whole recording says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import (
    DiarisingFailed,
    ModelCard,
    SpeakersHeard,
    SpeakerTurn,
    TextCommitted,
    TurnFailed,
    Word,
)
from lookhear.gateway.who_speaks import KEPT_SECONDS, label, speaker_of
from lookhear.media.voice.vad import SpeechStarted
from tests.gateway.scripted import SESSION, Script, kinds

HEARS = ModelCard("hears", "A", ["en"], 0, 1)
KNOWS = ModelCard("knows", "A", [], 0, 1, abilities=["diarise"])
SPEAKERS = {"lookhear": {"speakers": True}}
MANUAL = {"audio": {"input": {"turn_detection": None}}}


def asked(**options: Any) -> Script:
    script = Script(models=[HEARS, KNOWS])
    script.update({**SPEAKERS, **MANUAL, **options})
    return script


def says(script: Script, item: str, *words: Word) -> list[dict[str, Any]]:
    text = "".join(word.word for word in words)
    script.text[item] += text
    return script.engine(TextCommitted(SESSION, item, text, None, list(words)))


def heard(script: Script, seconds: float, *over: SpeakerTurn) -> list[dict[str, Any]]:
    return script.engine(SpeakersHeard(SESSION, list(over), [], seconds))


def test_words_and_completed_have_speakers() -> None:
    script = asked()
    assert script.frames[-1]["session"]["lookhear"]["speakers"] is True
    script.hear(2.0)
    assert [(m.model, m.begin) for m in script.diarised] == [("knows", 0)]
    assert heard(script, 2.0, SpeakerTurn(0, 0.0, 0.9), SpeakerTurn(1, 0.9, 2.0)) == []
    first, second = Word("Hello,", 0.1, 0.8, 0.9), Word(" Ann.", 1.0, 1.5, 0.9)
    words = says(script, "item_1", first, second)[-1]
    assert [word["speaker"] for word in words["words"]] == ["A", "B"]
    script.client("input_audio_buffer.commit")
    (completed,) = script.complete("item_1")
    assert completed["lookhear"] == {
        "segments": [
            {"speaker": "A", "start": 0.1, "end": 0.8, "text": "Hello,"},
            {"speaker": "B", "start": 1.0, "end": 1.5, "text": " Ann."},
        ],
        "settled": True,
    }
    assert heard(script, 3.0) == [], "nothing is left to be told"


def test_who_is_known_only_later_is_told_in_an_event_of_its_own() -> None:
    script = asked()
    script.hear(2.0)
    words = says(script, "item_1", Word("Hello", 0.1, 0.8, 0.9), Word(" you.", 1.0, 1.5, 0.9))[-1]
    assert [word["speaker"] for word in words["words"]] == ["A", "A"]
    script.client("input_audio_buffer.commit")
    (completed,) = script.complete("item_1")
    assert completed["lookhear"]["settled"] is False
    assert [said["text"] for said in completed["lookhear"]["segments"]] == ["Hello you."]
    assert heard(script, 1.2, SpeakerTurn(0, 0.0, 0.9)) == [], "not all of it is known"
    (event,) = heard(script, 1.6, SpeakerTurn(3, 0.9, 1.6))
    assert event["type"] == "lookhear.input_audio_transcription.speakers"
    assert (event["item_id"], event["content_index"]) == ("item_1", 0)
    assert [(said["speaker"], said["text"]) for said in event["segments"]] == [
        ("A", "Hello"),
        ("D", " you."),
    ]
    assert heard(script, 5.0) == [], "once"


def test_asked_for_in_mid_session_it_is_on_the_sessions_clock() -> None:
    """And goes on being heard when it is switched off: after a gap they would be others."""
    script = Script(models=[HEARS, KNOWS])
    script.update(MANUAL)
    script.hear(1.0)
    script.client("input_audio_buffer.commit")
    script.complete("item_1")
    assert not script.diarised
    script.update(SPEAKERS)
    script.hear(2.0)
    assert [message.begin for message in script.diarised] == [0]
    heard(script, 2.0, SpeakerTurn(0, 0.0, 1.0), SpeakerTurn(1, 1.0, 2.0))
    words = says(script, "item_2", Word("a", 0.2, 0.4, 1.0), Word(" b", 1.2, 1.4, 1.0))[-1]
    assert [word["speaker"] for word in words["words"]] == ["A", "B"]
    script.client("input_audio_buffer.commit")
    script.complete("item_2")
    script.update({"lookhear": {"speakers": False}})
    script.hear(1.0)
    assert kinds(says(script, "item_3", Word("c", 0.1, 0.2, 1.0))) == ["delta"]
    script.client("input_audio_buffer.commit")
    assert "lookhear" not in script.complete("item_3")[0]
    assert [message.begin for message in script.diarised] == [0, 32_000]


def test_who_does_not_ask_is_told_nothing_of_it() -> None:
    script = Script(models=[HEARS, KNOWS])
    script.update({**MANUAL, "lookhear": {"words": True}})
    script.hear(1.0)
    assert not script.diarised
    words = says(script, "item_1", Word("a", 0.2, 0.4, 1.0))[-1]
    assert "speaker" not in words["words"][0]
    script.client("input_audio_buffer.commit")
    assert "lookhear" not in script.complete("item_1")[0]


@pytest.mark.parametrize(
    ("models", "code", "reason"),
    [
        ([HEARS], "no_diariser", "no model here tells speakers apart"),
        (
            [ModelCard("hears", "A", ["en"], 0, 1, has_word_times=False), KNOWS],
            "invalid_words",
            "has no word times",
        ),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(
    models: list[ModelCard], code: str, reason: str
) -> None:
    script = Script(models=models)
    (error,) = script.update({**SPEAKERS, **MANUAL})
    told = error["error"]
    assert (told["code"], told["param"]) == (code, "session.lookhear.speakers")
    assert reason in told["message"] and "expected false" in told["message"]
    script.hear(0.5, [SpeechStarted(0)], speaking=True)
    assert not script.diarised and not script.started["item_1"].settings.words


def test_a_diariser_that_fails_is_told_of_and_speech_goes_on() -> None:
    script = asked()
    script.hear(1.0)
    says(script, "item_1", Word("a", 0.2, 0.4, 1.0))
    (error,) = script.engine(DiarisingFailed(SESSION, "audio_missing", "why"))
    assert error["type"] == "error" and error["error"]["code"] == "audio_missing"
    script.client("input_audio_buffer.commit")
    assert "lookhear" not in script.complete("item_1")[0]
    script.hear(1.0)
    words = says(script, "item_2", Word("b", 0.2, 0.4, 1.0))[-1]
    assert "speaker" not in words["words"][0]
    assert len(script.diarised) == 1


def test_what_waits_for_its_speakers_is_bounded() -> None:
    script = asked()
    waiting = 0
    for number in range(1, 300):
        script.hear(2.0)
        says(script, f"item_{number}", Word("a", 0.2, 0.4, 1.0))
        script.client("input_audio_buffer.commit")
        completed, *later = script.complete(f"item_{number}")
        assert completed["lookhear"]["settled"] is False
        waiting += 1 - len(later)
        assert waiting <= KEPT_SECONDS / 2 + 2


def test_cleared_and_failed_turns_are_forgotten() -> None:
    script = asked()
    script.hear(1.0)
    says(script, "item_1", Word("a", 0.2, 0.4, 1.0))
    script.client("input_audio_buffer.clear")
    script.hear(1.0)
    says(script, "item_2", Word("b", 0.2, 0.4, 1.0))
    script.client("input_audio_buffer.commit")
    script.engine(TurnFailed(SESSION, "item_2", "server_error", "asked to"))
    script.hear(1.0)
    says(script, "item_3", Word("c", 0.2, 0.4, 1.0))
    script.client("input_audio_buffer.commit")
    script.client("input_audio_buffer.clear")  # is of no turn that was committed
    script.complete("item_3")
    assert [event["item_id"] for event in heard(script, 9.0)] == ["item_3"]


TURNS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(turns=TURNS, order=st.randoms(use_true_random=False), size=st.integers(1, 5))
def test_the_last_word_on_it_is_what_the_whole_recording_says(
    turns: list[tuple[int, int]], order: Any, size: int
) -> None:
    script = asked()
    ends = list(itertools.accumulate((length for _, length in turns), initial=0))
    spoken = [
        SpeakerTurn(speaker, start / 10, end / 10)
        for (speaker, _), start, end in zip(turns, ends, ends[1:], strict=False)
    ]
    script.hear(ends[-1] / 10)
    words = [Word(f" w{n}", n / 10, n / 10 + 0.1, 1.0) for n in range(ends[-1])]
    said = [words[at : at + size] for at in range(0, len(words), size)]
    steps = ["text"] * len(said) + ["speakers"] * len(spoken) + ["commit"]
    order.shuffle(steps)
    told: list[dict[str, Any]] = []
    committed, texts, speakers = False, iter(said), iter(spoken)
    for step in [*steps, "done"]:
        if step == "text":
            says(script, "item_1", *next(texts))
        elif step == "speakers":
            turn = next(speakers)
            told += heard(script, turn.end, turn)
        elif step == "commit":
            script.client("input_audio_buffer.commit")
            committed = True
        else:
            assert committed
            told += script.complete("item_1")
    told += heard(script, ends[-1] / 10 + 1)
    *_, last = [e for e in told if "segments" in e or "lookhear" in e]
    segments = last.get("segments") or last["lookhear"]["segments"]
    assert "".join(s["text"] for s in segments) == script.text["item_1"]
    by_word = [(w, s["speaker"]) for s in segments for w in s["text"].split()]
    expected = [(w.word.strip(), label(speaker_of(w.start, w.end, spoken))) for w in words]
    assert by_word == expected
    assert all(a["speaker"] != b["speaker"] for a, b in itertools.pairwise(segments))
    is_settled = [e["lookhear"]["settled"] for e in told if "lookhear" in e]
    assert is_settled == ["segments" not in last]

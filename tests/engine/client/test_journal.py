"""What an engine's death leaves of a session: nothing is lost, repeated or contradicted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.client.journal import Held, Journal
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    CancelTurn,
    DropPicture,
    DropRecording,
    EndTurn,
    Event,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    Message,
    RecallSegment,
    StartAnswer,
)
from tests.engine.client.replayed import Death, play, script
from tests.engine.speech.scripted import Speech


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Speech]:
    """One to four turns of up to 25 words, with short and long pauses."""
    turns: list[Speech] = []
    for number in range(draw(st.integers(1, 4))):
        at, times = draw(st.floats(0.1, 1.5)), []
        for _ in range(draw(st.integers(0, 25))):
            length = draw(st.floats(0.2, 0.6))
            times.append((at, at + length))
            at += length + draw(st.sampled_from([0.15, 0.2, 0.6, 0.9, 3.5]))
        words = [f" w{number}.{i}" for i in range(len(times))]
        turns.append(Speech(words, times, turns[-1] if turns else None))
    return {f"t{number}": speech for number, speech in enumerate(turns)}


@pytest.mark.parametrize("at", [None, 34, 112, 117])
def test_what_was_cleared_was_never_said(at: int | None) -> None:
    """Two segments of the cancelled turn were over. at: where an engine died, in the turn before or
    behind one of these segments."""
    deaths = [] if at is None else [Death(at)]
    times = [(0.3, 0.8), (0.9, 1.4), (3.5, 4.0), (4.1, 4.6)]
    before = Speech([f" w0.{i}" for i in range(4)], times)
    speeches = {"t0": before, "t1": Speech([f" w1.{i}" for i in range(4)], times, before)}
    messages = script(speeches, SAMPLE_RATE // 10, language="en")
    assert messages[-1] == EndTurn("s", "t1")

    def past(messages: list[Message]) -> list[tuple[int, ...]]:
        _, journal, held = play(speeches, messages, deaths)
        assert held.bytes == journal._bytes
        said = [m.said.tokens for m in journal.replay() if isinstance(m, RecallSegment)]
        return [tuple(tokens) for tokens in said]

    first = past(messages[: messages.index(EndTurn("s", "t0")) + 1])
    assert len(past(messages)) > len(first) > 0
    assert past([*messages[:-1], CancelTurn("s", "t1")]) == first


@settings(max_examples=100, deadline=None)
@given(
    speeches=sessions(),
    chunk=st.sampled_from([0.1, 0.25, 1.0]),
    deaths=st.lists(
        st.builds(Death, st.integers(0, 200), st.integers(0, 4), st.integers(0, 30)), max_size=5
    ),
    language=st.sampled_from([None, "en"]),
)
def test_texts_and_times_are_those_of_a_session_that_nothing_befell(
    speeches: dict[str, Speech], chunk: float, deaths: list[Death], language: str | None
) -> None:
    messages = script(speeches, round(chunk * SAMPLE_RATE), language=language)
    whole, _, _ = play(speeches, messages)
    told, journal, held = play(speeches, messages, deaths)
    expected = {name: "".join(speech.words).lstrip() for name, speech in speeches.items()}
    assert whole.texts() == expected
    assert told.texts() == expected and list(told.texts()) == list(expected)
    assert told.words() == whole.words()
    assert not journal.is_busy and held.bytes == journal._bytes
    journal.close()
    assert held.bytes == 0 and held.forgotten_seconds == 0.0


def test_media_are_held_until_they_are_dropped_or_replaced() -> None:
    held = Held()
    journal = Journal("s", "m", held)
    pixels, samples = np.zeros((2, 2, 3), np.uint8), np.zeros(5, np.float32)
    rows = np.zeros((3, 4), np.float32)
    messages: list[Message] = [
        HoldPicture("s", "m", "a", pixels),
        HoldRecording("s", "m", "a", samples),
        HoldEmbeddings("s", "m", "a", rows),
    ]
    for message in (*messages, *messages):
        journal.sent(message)
    assert held.bytes == pixels.nbytes + samples.nbytes + rows.nbytes
    assert journal.replay() == messages
    journal.sent(DropRecording("s", "m", "a"))
    assert held.bytes == pixels.nbytes + rows.nbytes
    assert journal.replay() == [messages[0], messages[2]]
    journal.sent(DropPicture("s", "m", "a"))
    assert held.bytes == rows.nbytes and journal.replay() == messages[2:]
    journal.close()
    assert held.bytes == 0


PIECES = st.one_of(
    st.builds(
        AnswerText, st.just("s"), st.just("q"), st.sampled_from(["a", "b", ""]), st.booleans()
    ),
    st.builds(
        AnswerCall,
        st.just("s"),
        st.just("q"),
        st.integers(0, 1),
        st.sampled_from([None, "look"]),
        st.sampled_from(["{", "}"]),
    ),
)


def asked() -> Journal:
    journal = Journal("s", "m", Held())
    journal.sent(StartAnswer("s", "q", AnswerSettings("m", seed=1), []))
    return journal


@given(st.lists(PIECES, max_size=12), st.lists(st.integers(0, 14), max_size=4))
def test_an_answer_is_told_once_however_often_it_is_written(
    pieces: list[Event], deaths: list[int]
) -> None:
    """deaths: after how many events. Text, thinking and calls of tools alike."""
    usage = AnswerUsage()
    whole = [AnswerStarted("s", "q", usage), *pieces, AnswerCompleted("s", "q", "stop", usage)]
    journal, told = asked(), list[Event]()
    for death in [*(min(death, len(whole) - 1) for death in deaths), len(whole)]:
        told += [heard for event in whole[:death] if (heard := journal.heard(event)) is not None]
        messages = journal.replay()
        assert len(messages) == (1 if death < len(whole) else 0)
    assert told == whole and not journal.is_busy


@given(st.lists(PIECES, min_size=1, max_size=6), st.data())
def test_an_answer_in_other_words_fails_alone(pieces: list[Event], data: st.DataObject) -> None:
    """Another piece than the client has, or the end before it has all."""
    usage = AnswerUsage()
    journal = asked()
    for event in (AnswerStarted("s", "q", usage), *pieces):
        assert journal.heard(event) is event
    journal.replay()
    at = data.draw(st.integers(0, len(pieces) - 1))
    end = AnswerCompleted("s", "q", "stop", usage)
    other = data.draw(PIECES.filter(lambda piece: piece != pieces[at]) | st.just(end))
    assert journal.heard(AnswerStarted("s", "q", usage)) is None
    assert [journal.heard(event) for event in pieces[:at]] == [None] * at
    failed = journal.heard(other)
    assert isinstance(failed, AnswerFailed) and failed.code == "engine_died"
    assert not journal.is_busy

"""The pure parts of a reconnect: what is still needed, and the buffer that holds it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.errors import ProtocolError
from lookhear.live.events import Said, Speakers, TurnCompleted, TurnFailed, Words
from lookhear.live.replay import ReplayBuffer
from lookhear.live.turns import ServerVad, TurnTracker

S = 24_000


def started(item: str, ms: int) -> dict[str, Any]:
    kind = "input_audio_buffer.speech_started"
    return {"type": kind, "item_id": item, "audio_start_ms": ms}


def stopped(item: str, ms: int) -> dict[str, Any]:
    return {"type": "input_audio_buffer.speech_stopped", "item_id": item, "audio_end_ms": ms}


def transcription(kind: str, item: str, **fields: Any) -> dict[str, Any]:
    name = f"conversation.item.input_audio_transcription.{kind}"
    return {"type": name, "item_id": item, "content_index": 0, **fields}


def tracker() -> TurnTracker:
    tracker = TurnTracker(ServerVad())
    tracker.connected(0)
    return tracker


def test_an_unfinished_turn_is_needed_from_its_start() -> None:
    t = tracker()
    assert t.needed_from == 0  # anything may have been said
    t.receive(started("a", 1000))
    assert t.needed_from == S
    t.receive(stopped("a", 3000))
    t.receive(transcription("delta", "a", delta="so"))
    assert t.needed_from == S and t.disconnected() == ("a",)
    t.connected(t.needed_from)
    t.receive(started("b", 200))  # on the new connection's clock
    (completed,) = t.receive(transcription("completed", "b", transcript=""))
    assert isinstance(completed, TurnCompleted) and completed.start == pytest.approx(1.2)


def test_who_said_what_is_told_on_the_sources_clock_now_or_later() -> None:
    t = tracker()
    told = [{"speaker": "A", "start": 0.5, "end": 0.9, "text": " so"}]
    for item, settled in (("a", True), ("b", False)):
        t.receive(started(item, 1000))
        t.receive(stopped(item, 3000))
        extension = {"segments": told, "settled": settled}
        (turn,) = t.receive(transcription("completed", item, transcript=" so", lookhear=extension))
        assert isinstance(turn, TurnCompleted) and turn.said == (Said("A", " so", 1.5, 1.9),)
    name = "lookhear.input_audio_transcription.speakers"
    later = [{**told[0], "speaker": "B"}]
    event = {"type": name, "item_id": "b", "content_index": 0, "segments": later}
    assert t.receive(event) == [Speakers("b", (Said("B", " so", 1.5, 1.9),))]
    assert t.receive(event) == [], "once"


def test_a_finished_turn_is_released_but_for_a_little_hangover() -> None:
    t = tracker()
    t.receive(started("a", 1000))
    t.receive(stopped("a", 3000))
    t.receive(transcription("completed", "a", transcript="so"))
    assert t.needed_from == 3 * S - 300 * S // 1000
    assert t.blanks() == [] and not t.speaking and t.disconnected() == ()


def test_a_failed_turn_is_not_said_again() -> None:
    t = tracker()
    t.receive(started("a", 0))
    t.receive(stopped("a", 2000))
    (failed,) = t.receive(transcription("failed", "a", error={"code": "x", "message": "no"}))
    assert failed == TurnFailed("a", "x", "no")
    assert t.needed_from == 2 * S - 7200


def test_a_finished_turn_behind_an_unfinished_one_is_blanked() -> None:
    t = tracker()
    for item, begin, end in (("a", 0, 2000), ("b", 2200, 4000)):
        t.receive(started(item, begin))
        t.receive(stopped(item, end))
    t.receive(transcription("completed", "b", transcript="later"))
    assert t.needed_from == 0
    assert t.blanks() == [(2200 * 24, 4000 * 24 - 7200)]


def test_word_times_are_moved_to_the_source() -> None:
    t = TurnTracker(ServerVad())
    t.connected(10 * S)
    t.receive(started("a", 500))
    word = {"word": " so", "start": 0.25, "end": 0.5, "probability": 0.9}
    message = {"type": "lookhear.input_audio_transcription.words", "item_id": "a", "words": [word]}
    (words,) = t.receive(message)
    assert isinstance(words, Words)
    assert (words.words[0].start, words.words[0].end) == (10.75, 11.0)


def test_memory_does_not_grow_with_the_session() -> None:
    t = tracker()
    for n in range(2_000):
        t.receive(started(f"i{n}", n * 1000))
        t.receive(stopped(f"i{n}", n * 1000 + 800))
        t.receive(transcription("completed", f"i{n}", transcript="x"))
    assert len(t._turns) <= 1 and len(t._recently_done) <= 256


@pytest.mark.parametrize(
    "message",
    [
        transcription("delta", "a"),
        {"type": "input_audio_buffer.speech_started", "item_id": "a", "audio_start_ms": "soon"},
        {"type": "session.updated"},
    ],
)
def test_a_malformed_event_is_a_protocol_error(message: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="not well formed"):
        tracker().receive(message)


def test_nothing_may_follow_the_end_of_a_turn() -> None:
    t = tracker()
    t.receive(started("a", 0))
    t.receive(transcription("completed", "a", transcript=""))
    with pytest.raises(ProtocolError, match="already done"):
        t.receive(transcription("delta", "a", delta="late"))


def test_unknown_events_mean_nothing() -> None:
    assert tracker().receive({"type": "rate_limits.updated"}) == []
    assert tracker().receive({}) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 30), st.just(0)),
            st.tuples(st.just("release"), st.integers(0, 300), st.just(0)),
            st.tuples(st.just("blank"), st.integers(0, 300), st.integers(0, 300)),
        )
    )
)
def test_the_buffer_is_a_window_of_the_source(actions: list[tuple[str, int, int]]) -> None:
    """Against the simplest model: a list of all samples ever, and where the window starts."""
    limit, buffer = 50, ReplayBuffer(50)
    source: list[int] = []
    start = 0
    for action, a, b in actions:
        if action == "append":
            fresh = [1 + (len(source) + n) % 30_000 for n in range(a)]
            source += fresh
            buffer.append(b"".join(v.to_bytes(2, "little") for v in fresh))
            start = max(start, len(source) - limit)
        elif action == "release":
            start = max(start, min(a, len(source)))
            buffer.release(a)
        else:
            for n in range(max(a, start), min(b, len(source))):
                source[n] = 0
            buffer.blank(a, b)
        assert (buffer.start, buffer.end) == (start, len(source))
        window = buffer.read(buffer.start, 1_000)
        assert window == b"".join(v.to_bytes(2, "little") for v in source[start:])

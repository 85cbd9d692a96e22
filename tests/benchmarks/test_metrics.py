"""The benchmark's numbers, on traces whose answers are worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, SpokenWord, Trace
from lookhear.bench.measures.utterances import latencies
from lookhear.wer import WordErrors, normalise, word_errors

BUFFER = "input_audio_buffer."
TRANSCRIPTION = "conversation.item.input_audio_transcription."


def event(kind: str, item: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "item_id": item, **fields}


def delta(text: str, item: str = "a") -> dict[str, Any]:
    return event(TRANSCRIPTION + "delta", item, content_index=0, delta=text)


def provisional(text: str, item: str = "a") -> dict[str, Any]:
    return event("lookhear.input_audio_transcription.provisional", item, text=text)


def completed(text: str, item: str = "a") -> dict[str, Any]:
    return event(TRANSCRIPTION + "completed", item, transcript=text, languages=[{"code": "en"}])


def good_trace() -> Trace:
    """Three words in a turn of [0.5, 3.0) s; every packet leaves 0.1 s after its end."""
    packets = [(end / 50 + 0.1, end * RATE // 50) for end in range(1, 201)]
    events = [
        (1.2, event(BUFFER + "speech_started", audio_start_ms=500)),
        (1.6, provisional("one")),
        (2.0, provisional("won too")),
        (2.1, delta("one")),
        (2.6, provisional(" two free")),
        (2.8, delta(" two")),
        (3.2, event(BUFFER + "speech_stopped", audio_end_ms=3000)),
        (3.2, event(BUFFER + "committed", previous_item_id=None)),
        (3.4, delta(" three.")),
        (3.5, completed("one two three.")),
    ]
    return Trace("t", packets, events, 1000, None)


WORDS = (SpokenWord("One", 0.8, 1.2), SpokenWord("two", 1.3, 1.8), SpokenWord("three", 1.9, 2.5))


def test_a_packet_is_found_by_the_sound_it_holds() -> None:
    trace = good_trace()
    assert trace.sent_at(0.0) == pytest.approx(0.12)  # the first packet, [0, 0.02) s
    assert trace.sent_at(0.0199) == pytest.approx(0.12)
    assert trace.sent_at(0.02) == pytest.approx(0.14)
    assert trace.lateness == pytest.approx(0.1) and trace.seconds == 4.0
    with pytest.raises(ValueError, match="no packet"):
        trace.sent_at(4.0)


def test_latencies_by_hand() -> None:
    trace = good_trace()
    # Onset at 0.8 s: packet [0.80, 0.82), sent at 0.92. First committed text at 2.1.
    assert metrics.first_text_latencies(trace, WORDS) == pytest.approx([2.1 - 0.92])
    assert metrics.first_text_latencies(trace, WORDS, provisional=True) == pytest.approx(
        [1.6 - 0.92]
    )
    # The last word ends at 2.5 s: packet [2.50, 2.52), sent at 2.62.
    assert metrics.final_latencies(trace, WORDS) == pytest.approx([3.5 - 2.62])
    lags = latencies(trace, WORDS).commit_lag
    assert [end for end, _ in lags] == [1.2, 1.8, 2.5]
    assert [lag for _, lag in lags] == pytest.approx([2.1 - 1.32, 2.8 - 1.92, 3.4 - 2.62])


def test_a_word_in_pieces_is_there_with_its_last_piece() -> None:
    trace = good_trace()
    trace.events = [(2.0, delta("on")), (2.5, delta("e tw")), (3.0, delta("o"))]
    assert [lag for _, lag in latencies(trace, WORDS).commit_lag] == pytest.approx(
        [2.5 - 1.32, 3.0 - 1.92]
    )


def test_erasure_by_hand() -> None:
    # Shown: "one", then "won too" (1 erased), "one two free" (2), final "one two three" (1).
    assert metrics.erasure(good_trace()) == (4, 3)


def test_who_comes_before_an_earlier_turn_is_through_overtakes() -> None:
    first, second = [delta("one"), completed("one")], [delta("two", "b"), completed("two", "b")]
    starts = [event(BUFFER + "speech_started", item, audio_start_ms=0) for item in "ab"]

    def overtakings(*events: dict[str, Any]) -> int:
        return metrics.overtakings(Trace("t", [], [(0.0, one) for one in (*starts, *events)]))

    assert overtakings(*first, *second) == 0
    assert overtakings(*second, *first) == 2
    assert overtakings(first[0], second[0], first[1], second[1]) == 1
    failed = event(TRANSCRIPTION + "failed")
    assert overtakings(first[0], failed, *second) == 0


def test_cadence_by_hand() -> None:
    assert metrics.cadence(good_trace()) == pytest.approx([0.4, 0.1, 0.5, 0.2, 0.6])


def test_turns_and_text() -> None:
    trace = good_trace()
    (turn,) = metrics.turns(trace)
    assert (turn.start, turn.end, turn.completed, turn.language) == (0.5, 3.0, 3.5, "en")
    assert metrics.hypothesis(trace) == "one two three."
    assert word_errors("one two three", metrics.hypothesis(trace)).rate == 0.0


def test_a_good_trace_breaks_no_promise() -> None:
    assert metrics.invariant_violations(good_trace()) == []
    assert not metrics.dropped(good_trace())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t.events.append((4.0, delta(" late"))), "after the end of a"),
        (lambda t: t.events.append((4.0, completed("one two three."))), "completed 2 times"),
        (lambda t: t.events.pop(3), "do not join"),
        (lambda t: t.events.pop(), "committed 1 and completed 0"),
        (lambda t: t.events.pop(7), "committed 0 and completed 1"),
        (lambda t: t.events.append((4.0, {"type": "error", "error": {}})), "error event"),
        (lambda t: setattr(t, "problem", "closed early"), "closed early"),
    ],
)
def test_every_broken_promise_is_seen(change: Any, complaint: str) -> None:
    trace = good_trace()
    change(trace)
    assert any(complaint in text for text in metrics.invariant_violations(trace))


def test_a_session_that_did_not_end_is_dropped() -> None:
    unfinished, closed = good_trace(), good_trace()
    unfinished.events.pop()
    closed.close_code = 1011
    assert metrics.dropped(unfinished) and metrics.dropped(closed)


def test_words_belong_to_the_turn_that_holds_their_middle() -> None:
    turn = metrics.Turn("a", start=1.0, end=2.0)
    assert metrics.words_of(turn, WORDS) == [WORDS[0], WORDS[1]]
    open_turn = metrics.Turn("a", start=1.4)
    assert metrics.words_of(open_turn, WORDS) == [WORDS[1], WORDS[2]]


def test_summaries() -> None:
    assert metrics.summary([]) == {"n": 0}
    numbers = metrics.summary([0.1 * n for n in range(1, 22)])
    assert numbers == {"n": 21, "mean": 1.1, "p50": 1.1, "p95": 2.0, "p99": 2.08, "max": 2.1}
    assert metrics.slope_per_minute([(0, 1.0), (60, 1.5), (120, 2.0)]) == pytest.approx(0.5)
    assert metrics.slope_per_minute([(3, 1.0), (3, 2.0)]) == 0.0
    minutes = metrics.by_minute([(1, 1.0), (59, 3.0), (130, 5.0)])
    assert [(m["minute"], m["mean"]) for m in minutes] == [(0, 2.0), (2, 5.0)]


def test_the_interval_holds_the_rate_and_is_repeatable() -> None:
    errors = [word_errors("a b c d", "a b c x" if n % 4 else "a b c d") for n in range(80)]
    low, high = metrics.bootstrap_interval(errors)
    assert low < 60 / 320 < high and (low, high) == metrics.bootstrap_interval(errors)
    assert metrics.bootstrap_interval([WordErrors(0, 0, 0, 5)]) == (0.0, 0.0)


def test_the_gap_is_over_the_same_utterances() -> None:
    live = {"a": WordErrors(1, 0, 1, 4), "b": WordErrors(0, 0, 0, 4), "x": WordErrors(9, 0, 0, 9)}
    offline = {"a": WordErrors(1, 0, 0, 4), "b": WordErrors(0, 0, 0, 4)}
    gap = metrics.paired_gap(live, offline)
    assert gap["gap"] == 0.125 and gap["utterances"] == 2
    assert gap["interval"][0] <= 0.125 <= gap["interval"][1]
    assert metrics.paired_gap({}, offline) == {"utterances": 0}


TEXTS = st.lists(st.sampled_from(["a", "b", " ", "c d", "."]), max_size=8)


@given(TEXTS)
def test_committed_text_alone_is_never_erased(pieces: list[str]) -> None:
    trace = good_trace()
    trace.events = [(1.0 + n, delta(piece)) for n, piece in enumerate(pieces)]
    trace.events.append((50.0, completed("".join(pieces))))
    erased, final = metrics.erasure(trace)
    assert erased == 0 and final == len(normalise("".join(pieces)))


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=6), st.floats(0.0, 2.0))
def test_a_constant_delay_is_what_every_word_lags(gaps: list[float], delay: float) -> None:
    """Text that comes a fixed time after the packet of each word's end lags by exactly that."""
    packets = [(end / 50, end * RATE // 50) for end in range(1, 1_000)]
    trace = Trace("t", packets, [], 1000, None)
    words, at = [], 0.1
    for number, gap in enumerate(gaps):
        words.append(SpokenWord(f"w{number}", at, at + gap))
        at += gap
    trace.events = [(trace.sent_at(w.end) + delay, delta(f"{w.word} ")) for w in words]
    lags = latencies(trace, words).commit_lag
    assert [lag for _, lag in lags] == pytest.approx([delay] * len(words))


@given(st.permutations(["a", "b", "c"]))
def test_a_trace_survives_json(order: list[str]) -> None:
    trace = good_trace()
    trace.events += [(5.0, delta(text, item=text)) for text in order]
    again = Trace.from_json(json.loads(json.dumps(trace.to_json())))
    assert again == trace

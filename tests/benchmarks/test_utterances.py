"""Latencies by the pauses of the reference, on traces whose answers are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.measures.trace import RATE, SpokenWord, Trace
from lookhear.bench.measures.utterances import (
    average_lagging,
    heard_words,
    latencies,
    match,
    utterances,
)

TRANSCRIPTION = "conversation.item.input_audio_transcription."


def delta(text: str, item: str = "a") -> dict[str, Any]:
    return {"type": TRANSCRIPTION + "delta", "item_id": item, "delta": text}


def provisional(text: str, item: str = "a") -> dict[str, Any]:
    kind = "lookhear.input_audio_transcription.provisional"
    return {"type": kind, "item_id": item, "text": text}


def completed(text: str, item: str = "a") -> dict[str, Any]:
    return {"type": TRANSCRIPTION + "completed", "item_id": item, "transcript": text}


def sent(*events: tuple[float, dict[str, Any]]) -> Trace:
    """Ten seconds in packets of 20 ms, each sent at the end of its sound."""
    return Trace("t", [(n / 50, n * RATE // 50) for n in range(1, 501)], list(events), 1000)


WORDS = (
    SpokenWord("one", 1.0, 1.29),
    SpokenWord("two", 1.3, 1.59),
    SpokenWord("three", 2.5, 2.99),
)


def test_utterances_are_what_stands_between_pauses() -> None:
    assert utterances(WORDS) == [range(0, 2), range(2, 3)]
    assert utterances(WORDS, pause=2.0) == [range(0, 3)]
    assert utterances(()) == []


def test_latencies_by_hand() -> None:
    trace = sent(
        (1.5, provisional("won")),
        (1.8, provisional("one too")),
        (2.0, delta("one ")),
        (2.1, provisional("two")),
        (2.4, delta("two ")),
        (3.5, provisional("three")),
        (4.0, delta("three")),
        (4.1, completed("one two three")),
    )
    words = [(w.token, w.committed, w.settled) for w in heard_words(trace)]
    assert words == [("one", 2.0, 1.8), ("two", 2.4, 2.1), ("three", 4.0, 3.5)]
    found = latencies(trace, WORDS)
    # Ends at 1.29, 1.59, 2.99 s lie in the packets sent at 1.30, 1.60, 3.00.
    assert [lag for _, lag in found.commit_lag] == pytest.approx([0.7, 0.8, 1.0])
    assert [lag for _, lag in found.settled_lag] == pytest.approx([0.5, 0.5, 0.5])
    # Onsets at 1.0 and 2.5 s: packets sent at 1.02 and 2.52.
    assert found.first_text == pytest.approx([2.0 - 1.02, 4.0 - 2.52])
    assert found.first_shown == pytest.approx([1.8 - 1.02, 3.5 - 2.52])
    assert found.final == pytest.approx([2.4 - 1.60, 4.0 - 3.0])
    assert found.final_shown == pytest.approx([2.1 - 1.60, 3.5 - 3.0])
    # Delays 0.98 and 1.38 of two words in 0.58 s: both are late, only the first counts.
    assert found.laal == pytest.approx([0.98, 1.48])


def test_where_a_server_cuts_its_turns_does_not_matter() -> None:
    whole = sent((2.0, delta("one ")), (2.4, delta("two ")), (4.0, delta("three")))
    cut = sent((2.0, delta("one ")), (2.4, delta("two")), (4.0, delta("three", "b")))
    assert latencies(whole, WORDS) == latencies(cut, WORDS)


def test_text_that_moves_is_not_settled() -> None:
    trace = sent(
        (1.5, provisional("one two")),
        (1.6, provisional("two")),
        (1.7, provisional("one two")),
        (2.0, delta("one two")),
    )
    assert [word.settled for word in heard_words(trace)] == [1.7, 1.7]


def test_a_server_without_deltas_commits_with_the_completion() -> None:
    trace = sent((4.0, completed("one two")))
    assert [word.committed for word in heard_words(trace)] == [4.0, 4.0]


def test_an_utterance_that_was_not_heard_has_no_latency() -> None:
    found = latencies(sent((4.0, delta("three"))), WORDS)
    assert len(found.final) == len(found.laal) == 1
    nothing = latencies(sent(), WORDS)
    assert nothing.commit_lag == [] and nothing.final == []


def test_wrong_words_match_where_they_stand() -> None:
    trace = sent((4.0, delta("won two tree")))
    pairs = [(p.word.word, p.as_heard.token) for p in match(WORDS, heard_words(trace))]
    assert pairs == [("one", "won"), ("two", "two"), ("three", "tree")]


def test_average_lagging_by_hand() -> None:
    # One word per second, each a second after the ideal speaker began it: lags 1 throughout.
    assert average_lagging([1.0, 2.0, 3.0, 4.0], 4.0, 4) == pytest.approx(1.0)
    # All at the end: the first word has it all, the rest does not count.
    assert average_lagging([4.0, 4.0, 4.0, 4.0], 4.0, 4) == pytest.approx(4.0)
    # Twice the words do not make it faster than it is: 1.0 = mean of 1, 1, 1, ...
    many = [0.5 * n + 1.0 for n in range(8)]
    assert average_lagging(many, 4.0, 4) == pytest.approx(1.0)
    assert average_lagging(many, 4.0, 4, adaptive=False) < 0.0
    with pytest.raises(ValueError, match="expected words"):
        average_lagging([], 4.0, 4)


@given(
    st.lists(st.floats(0.1, 5.0), min_size=1, max_size=8),
    st.floats(0.1, 3.0),
    st.integers(1, 8),
)
def test_waiting_longer_never_lags_less_while_speech_lasts(
    gaps: list[float], more: float, reference: int
) -> None:
    delays = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    seconds = delays[-1] + more + 1.0  # nothing comes after the end of the speech
    later = [delay + more for delay in delays]
    before = average_lagging(delays, seconds, reference)
    assert average_lagging(later, seconds, reference) == pytest.approx(before + more)


@given(st.lists(st.sampled_from(["one", "two", "three", "x"]), max_size=6), st.floats(0, 3))
def test_text_is_settled_no_later_than_committed(said: list[str], gap: float) -> None:
    events = []
    for place, word in enumerate(said):
        events.append((1.0 + place, provisional(word)))
        events.append((1.0 + place + gap / 4, delta(f"{word} ")))
    words = heard_words(sent(*events))
    assert [word.token for word in words] == said
    assert all(word.settled <= word.committed for word in words)

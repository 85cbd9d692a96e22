"""Latency numbers that do not depend on where a server cuts its turns.

Servers differ in what they call a final: some cut at every pause, some once per session. These
numbers look at the reference only: at its words, and at its utterances, which are words without a
pause between them. Committed is text that the server promised not to change; settled is text that
was shown, perhaps as provisional, and did not change any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lookhear.bench.measures.metrics import Turn, arrivals, common_prefix, turns
from lookhear.bench.measures.trace import SpokenWord, Trace
from lookhear.wer import align, normalise

PAUSE_SECONDS = 0.4


@dataclass(frozen=True, slots=True)
class HeardWord:
    """A word of the session's final text. committed, settled: when, on the trace's clock."""

    token: str
    committed: float
    settled: float


@dataclass(frozen=True, slots=True)
class Match:
    """A reference word that was heard, right or wrong. spoken, heard: its index in either text."""

    spoken: int
    heard: int
    word: SpokenWord
    as_heard: HeardWord


def heard_words(trace: Trace) -> list[HeardWord]:
    """All committed words of the session, in the order of the items."""
    return [word for turn in turns(trace) for word in _of_turn(turn)]


def _of_turn(turn: Turn) -> list[HeardWord]:
    committed = arrivals(turn)
    final = [token for token, _ in committed]
    settled: list[float | None] = [None] * len(final)
    text = ""
    updates = [(when, False, piece) for when, piece in turn.deltas]
    updates += [(when, True, piece) for when, piece in turn.provisional]
    for when, is_provisional, piece in sorted(updates, key=lambda update: update[0]):
        if not is_provisional:
            text += piece
            continue
        shown = normalise(text + piece)
        same = common_prefix(shown, final)
        # What stands behind the first wrong word will move: it is not settled either.
        settled = [
            (when if since is None else since) if place < same else None
            for place, since in enumerate(settled)
        ]
    return [
        HeardWord(token, when, when if since is None else min(since, when))
        for (token, when), since in zip(committed, settled, strict=True)
    ]


def match(words: Sequence[SpokenWord], heard: Sequence[HeardWord]) -> list[Match]:
    """Reference words against heard ones, by the cheapest alignment of the whole session."""
    spoken = [(token, index) for index, word in enumerate(words) for token in normalise(word.word)]
    pairs = align([token for token, _ in spoken], [word.token for word in heard])
    return [
        Match(spoken[i][1], j, words[spoken[i][1]], heard[j])
        for i, j in pairs
        if i is not None and j is not None
    ]


def utterances(words: Sequence[SpokenWord], pause: float = PAUSE_SECONDS) -> list[range]:
    """Indices of the words between two pauses of at least `pause` seconds."""
    cuts = [
        index
        for index in range(1, len(words))
        if words[index].start - words[index - 1].end >= pause
    ]
    return [
        range(start, end)
        for start, end in zip([0, *cuts], [*cuts, len(words)], strict=True)
        if start < end
    ]


@dataclass(frozen=True, slots=True)
class Latencies:
    """All in seconds. The lags come with the end of their word in the audio: (end, lag).

    commit_lag, settled_lag: of each heard word, since its end was sent. first_text, first_shown:
    of each utterance, its first committed or settled word since its onset was sent. final: of each
    utterance, its last committed word since its end was sent; final_shown: its last settled one.
    laal: of each utterance.
    """

    commit_lag: list[tuple[float, float]]
    settled_lag: list[tuple[float, float]]
    first_text: list[float]
    first_shown: list[float]
    final: list[float]
    final_shown: list[float]
    laal: list[float]


def latencies(trace: Trace, words: Sequence[SpokenWord]) -> Latencies:
    """Every number of one session from one alignment."""
    heard = heard_words(trace)
    found = Latencies([], [], [], [], [], [], [])
    by_word: dict[int, list[Match]] = {}
    for pair in match(words, heard):
        by_word.setdefault(pair.spoken, []).append(pair)
        sent = trace.sent_at(pair.word.end)
        found.commit_lag.append((pair.word.end, pair.as_heard.committed - sent))
        found.settled_lag.append((pair.word.end, pair.as_heard.settled - sent))
    for indices in utterances(words):
        pairs = [pair for index in indices for pair in by_word.get(index, [])]
        if not pairs:
            continue  # not one word of it: the WER tells
        said = [words[index] for index in indices]
        onset, end = trace.sent_at(said[0].start), trace.sent_at(said[-1].end)
        found.first_text.append(min(pair.as_heard.committed for pair in pairs) - onset)
        found.first_shown.append(min(pair.as_heard.settled for pair in pairs) - onset)
        found.final.append(max(pair.as_heard.committed for pair in pairs) - end)
        found.final_shown.append(max(pair.as_heard.settled for pair in pairs) - end)
        # Inserted words between two matched ones belong to the utterance as well.
        own = heard[pairs[0].heard : pairs[-1].heard + 1]
        tokens = sum(len(normalise(word.word)) for word in said)
        delays = [word.committed - onset for word in own]
        found.laal.append(average_lagging(delays, end - onset, tokens))
    return found


def average_lagging(
    delays: Sequence[float], seconds: float, reference: int, *, adaptive: bool = True
) -> float:
    """LAAL (arXiv 2206.05807), computation-aware; AL (arXiv 1810.08398) if not adaptive.

    delays: when each emitted word was committed, since the onset of the speech. seconds: how long
    the speech is. reference: its words. Mean over the words up to the first that came when the
    speech was over, of the delay less that of an ideal speaker of evenly spaced words. ValueError
    without words.
    """
    if not delays or reference < 1:
        raise ValueError(f"expected words on both sides, got {len(delays)} and {reference}")
    rate = seconds / (max(reference, len(delays)) if adaptive else reference)
    lagging = []
    for index, delay in enumerate(delays):
        lagging.append(delay - index * rate)
        if delay >= seconds:
            break
    return sum(lagging) / len(lagging)

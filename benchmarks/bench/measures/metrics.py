"""Every number of the live benchmark, as pure functions of traces and reference words.

Definitions follow the field: latencies count from the sending of the packet that holds the sound
in question, so the network and the pacing of the generator are not charged to the server; commit
lag is per word; erasure is normalised by the final length (arXiv 2302.12049).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookhear.bench.measures.trace import SpokenWord, Trace
from lookhear.wer import WordErrors, align, normalise

_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@dataclass(slots=True)
class Turn:
    """One conversation item as the wire told it; times on the trace's clock, in seconds."""

    item_id: str
    start: float = 0.0  # of its audio
    end: float | None = None  # of its audio, hangover included; None if it was never said
    deltas: list[tuple[float, str]] = field(default_factory=list)
    provisional: list[tuple[float, str]] = field(default_factory=list)
    completed: float | None = None  # when
    text: str = ""
    language: str | None = None


def turns(trace: Trace) -> list[Turn]:
    """The items of a trace, in the order in which they were first heard of."""
    found: dict[str, Turn] = {}
    announced: set[str] = set()
    for when, event in trace.events:
        item_id = event.get("item_id")
        if not isinstance(item_id, str):
            continue
        turn = found.setdefault(item_id, Turn(item_id))
        match event["type"]:
            case "input_audio_buffer.speech_started":
                turn.start = event["audio_start_ms"] / 1000
                announced.add(item_id)
            case "input_audio_buffer.speech_stopped":
                turn.end = event["audio_end_ms"] / 1000
            case "conversation.item.input_audio_transcription.delta":
                turn.deltas.append((when, event["delta"]))
            case "lookhear.input_audio_transcription.provisional":
                turn.provisional.append((when, event["text"]))
            case "conversation.item.input_audio_transcription.completed":
                turn.completed, turn.text = when, event["transcript"]
                languages = event.get("languages")
                turn.language = languages[0]["code"] if languages else None
    # A turn that was committed by hand has no announced start: it follows the one before it.
    before = 0.0
    for turn in found.values():
        if turn.item_id not in announced:
            turn.start = before
        before = turn.end if turn.end is not None else turn.start
    return list(found.values())


def hypothesis(trace: Trace) -> str:
    """All completed text of a session."""
    return " ".join(turn.text.strip() for turn in turns(trace) if turn.text.strip())


def invariant_violations(trace: Trace) -> list[str]:
    """What the wire promised and did not keep. Empty is the only good answer."""
    wrong: list[str] = []
    if trace.problem is not None:
        wrong.append(f"{trace.name}: {trace.problem}")
    text: dict[str, str] = {}
    committed: dict[str, int] = {}
    done: dict[str, int] = {}
    for _, event in trace.events:
        kind, item = event["type"], event.get("item_id", "")
        if kind == "error":
            wrong.append(f"{trace.name}: error event: {event.get('error')}")
        if item in done and kind not in ("conversation.item.retrieved",):
            wrong.append(f"{trace.name}: {kind} after the end of {item}")
        if kind == "input_audio_buffer.committed":
            committed[item] = committed.get(item, 0) + 1
        elif kind == _TRANSCRIPTION + "delta":
            text[item] = text.get(item, "") + event["delta"]
        elif kind == _TRANSCRIPTION + "completed":
            done[item] = done.get(item, 0) + 1
            if text.get(item, "") != event["transcript"]:
                wrong.append(f"{trace.name}: deltas of {item} do not join to its transcript")
        elif kind == _TRANSCRIPTION + "failed":
            done[item] = done.get(item, 0) + 1
            wrong.append(f"{trace.name}: {item} failed: {event.get('error')}")
    for item in {*committed, *done, *text}:
        counts = committed.get(item, 0), done.get(item, 0)
        if counts != (1, 1):
            wrong.append(
                f"{trace.name}: {item} was committed {counts[0]} and completed {counts[1]} times"
            )
    return wrong


def overtakings(trace: Trace) -> int:
    """Committed texts and completions that came before an earlier turn had its own completion."""
    order = {turn.item_id: place for place, turn in enumerate(turns(trace))}
    done: set[str] = set()
    late = 0
    for _, event in trace.events:
        item, kind = event.get("item_id", ""), event["type"]
        if kind in (_TRANSCRIPTION + "delta", _TRANSCRIPTION + "completed"):
            late += any(order[item] > place for other, place in order.items() if other not in done)
        if kind in (_TRANSCRIPTION + "completed", _TRANSCRIPTION + "failed"):
            done.add(item)
    return late


def dropped(trace: Trace) -> bool:
    """The session did not live to its end, or a turn of it has no transcript."""
    unfinished = any(turn.completed is None for turn in turns(trace))
    return trace.problem is not None or trace.close_code != 1000 or unfinished


# --- accuracy ------------------------------------------------------------------------------------


def bootstrap_interval(
    errors: Sequence[WordErrors], *, seed: int = 0, rounds: int = 1000
) -> tuple[float, float]:
    """95 % interval of the corpus WER, by drawing utterances with replacement."""
    if not errors:
        return (float("nan"), float("nan"))
    wrong = np.array([_wrong(e) for e in errors])
    words = np.array([e.words for e in errors])
    draws = np.random.default_rng(seed).integers(0, len(errors), (rounds, len(errors)))
    rates = wrong[draws].sum(axis=1) / np.maximum(1, words[draws].sum(axis=1))
    low, high = np.percentile(rates, [2.5, 97.5])
    return float(low), float(high)


def paired_gap(
    live: Mapping[str, WordErrors], offline: Mapping[str, WordErrors], *, seed: int = 0
) -> dict[str, Any]:
    """Live WER minus offline WER over the utterances that both have, with its 95 % interval."""
    names = sorted(set(live) & set(offline))
    if not names:
        return {"utterances": 0}
    pairs = [(live[name], offline[name]) for name in names]
    more = np.array([_wrong(a) - _wrong(b) for a, b in pairs])
    words = np.array([a.words for a, _ in pairs])
    draws = np.random.default_rng(seed).integers(0, len(names), (1000, len(names)))
    gaps = more[draws].sum(axis=1) / np.maximum(1, words[draws].sum(axis=1))
    low, high = np.percentile(gaps, [2.5, 97.5])
    return {
        "utterances": len(names),
        "gap": round(float(more.sum() / max(1, words.sum())), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
    }


def _wrong(errors: WordErrors) -> int:
    return errors.substitutions + errors.deletions + errors.insertions


# --- latency -------------------------------------------------------------------------------------


def words_of(turn: Turn, words: Sequence[SpokenWord]) -> list[SpokenWord]:
    """The reference words whose middle lies in the turn's audio."""
    end = float("inf") if turn.end is None else turn.end
    return [word for word in words if turn.start <= (word.start + word.end) / 2 < end]


def first_text_latencies(
    trace: Trace, words: Sequence[SpokenWord], *, provisional: bool = False
) -> list[float]:
    """Per turn with text: first text minus the sending of the packet with the speech onset.

    Only committed text counts, unless provisional: then whichever comes first.
    """
    latencies = []
    for turn in turns(trace):
        shown = [when for when, text in turn.deltas if text.strip()]
        if provisional:
            shown += [when for when, text in turn.provisional if text.strip()]
        spoken = words_of(turn, words)
        if shown and spoken:
            latencies.append(min(shown) - trace.sent_at(spoken[0].start))
    return latencies


def final_latencies(trace: Trace, words: Sequence[SpokenWord]) -> list[float]:
    """Per turn: its completed event minus the sending of the packet with its last speech sample.

    The voice detector's hangover is included: it is what a person waits for.
    """
    latencies = []
    for turn in turns(trace):
        spoken = words_of(turn, words)
        if turn.completed is not None and spoken:
            latencies.append(turn.completed - trace.sent_at(spoken[-1].end))
    return latencies


def arrivals(turn: Turn) -> list[tuple[str, float]]:
    """Each word of a turn's text, normalised, with the arrival of its last character.

    Of a turn without deltas all of the text came with its completion.
    """
    deltas = turn.deltas
    if not deltas and turn.completed is not None:
        deltas = [(turn.completed, turn.text)]
    text = "".join(delta for _, delta in deltas)
    arrival = [when for when, delta in deltas for _ in delta]
    found: list[tuple[str, float]] = []
    position = 0
    for raw in text.split():
        position = text.index(raw, position) + len(raw)
        found += [(token, arrival[position - 1]) for token in normalise(raw)]
    return found


def finish_latency(trace: Trace) -> list[float]:
    """[the last text or completion minus the sending of the last packet]; [] if there was none."""
    last = [
        when
        for turn in turns(trace)
        for when in (turn.completed, *(when for when, _ in turn.deltas))
        if when is not None
    ]
    return [max(last) - trace.packets[-1][0]] if last and trace.packets else []


def cadence(trace: Trace) -> list[float]:
    """Gaps between two text events of one turn, committed or provisional, in seconds."""
    gaps: list[float] = []
    for turn in turns(trace):
        times = sorted(when for when, _ in [*turn.deltas, *turn.provisional])
        gaps += [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    return gaps


# --- stability -----------------------------------------------------------------------------------


def erasure(trace: Trace) -> tuple[int, int]:
    """(words shown and then taken back or changed, words of the final text).

    Shown is what a screen has: committed text and the provisional text behind it. The quotient
    over many traces is the normalised erasure.
    """
    erased = final = 0
    for turn in turns(trace):
        committed = ""
        shown: list[str] = []
        updates = sorted(
            [(when, 0, text) for when, text in turn.deltas]
            + [(when, 1, text) for when, text in turn.provisional],
            key=lambda update: update[0],
        )
        for _, is_provisional, text in updates:
            if not is_provisional:
                committed += text
                continue  # what follows it on the screen is told by the next provisional
            now = normalise(committed + text)
            erased += len(shown) - common_prefix(shown, now)
            shown = now
        final += len(normalise(turn.text))
        erased += len(shown) - common_prefix(shown, normalise(turn.text))
    return erased, final


def common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """How many words both begin with."""
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return min(len(a), len(b))


def retracted(trace: Trace) -> int:
    """Committed words that the turn's final text does not have: 0 on a wire that keeps its word."""
    lost = 0
    for turn in turns(trace):
        if turn.completed is not None:
            said = normalise("".join(delta for _, delta in turn.deltas))
            final = normalise(turn.text)
            pairs = align(said, final)
            lost += sum(i is not None and (j is None or said[i] != final[j]) for i, j in pairs)
    return lost


# --- summaries -----------------------------------------------------------------------------------


def summary(values: Sequence[float]) -> dict[str, Any]:
    """n, mean, p50, p95, p99 and max of some seconds, rounded to milliseconds; n only if empty."""
    if not values:
        return {"n": 0}
    data = np.asarray(values, dtype=float)
    p50, p95, p99 = np.percentile(data, [50, 95, 99])
    numbers = {"mean": data.mean(), "p50": p50, "p95": p95, "p99": p99, "max": data.max()}
    return {"n": len(values)} | {name: round(float(x), 3) for name, x in numbers.items()}


def slope_per_minute(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares growth of y per 60 of x: seconds of lag per minute of audio."""
    if len({x for x, _ in points}) < 2:
        return 0.0
    x, y = np.asarray(points, dtype=float).T
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum() * 60)


def by_minute(points: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Summaries of y for each whole minute of x, from the first to the last that has points."""
    minutes: dict[int, list[float]] = {}
    for x, y in points:
        minutes.setdefault(int(x // 60), []).append(y)
    return [{"minute": minute, **summary(minutes[minute])} for minute in sorted(minutes)]

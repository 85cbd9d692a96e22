"""Everything that is measured the same way of any sessions of any server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import Trace
from lookhear.bench.measures.utterances import Latencies, latencies
from lookhear.bench.recordings.session import Session
from lookhear.wer import WordErrors, total

GROWTH_SECONDS = 30.0  # a session must last this long before a growth of its lag means anything
MOST_POINTS = 1500  # of lags that a result keeps
Json = dict[str, Any]


def live_numbers(sessions: Sequence[Session], traces: Sequence[Trace]) -> Json:
    """All metrics of the traces, pooled over the sessions."""
    pairs = list(zip(sessions, traces, strict=True))
    errors = [error for s, t in pairs for error in s.part_errors(metrics.hypothesis(t))]
    whole = [(s, t) for s, t in pairs if _was_sent(s, t)]
    heard = [latencies(t, s.words) for s, t in whole]
    lags = [point for found in heard for point in found.commit_lag]
    erased = [metrics.erasure(trace) for trace in traces]
    violations = [text for trace in traces for text in metrics.invariant_violations(trace)]
    return {
        "sessions": len(sessions),
        "audio_seconds": round(sum(trace.seconds for trace in traces), 1),
        "turns": sum(len(metrics.turns(trace)) for trace in traces),
        **wer_numbers(errors),
        **_of_turns(whole),
        "commit_lag_s": metrics.summary([lag for _, lag in lags]),
        "commit_lag_growth_s_per_minute": growth(lags),
        "commit_lag_by_minute": metrics.by_minute(lags),
        "settled_lag_s": metrics.summary([lag for found in heard for _, lag in found.settled_lag]),
        "settled_lag_growth_s_per_minute": growth(
            [point for found in heard for point in found.settled_lag]
        ),
        "utterance": _of_utterances(heard),
        "finish_s": metrics.summary([x for t in traces for x in metrics.finish_latency(t)]),
        "cadence_s": metrics.summary([gap for trace in traces for gap in metrics.cadence(trace)]),
        "erasure": round(sum(e for e, _ in erased) / max(1, sum(f for _, f in erased)), 3),
        "retracted_words": sum(metrics.retracted(trace) for trace in traces),
        "drops": sum(metrics.dropped(trace) for trace in traces),
        "violations": violations[:20],
        "violation_count": len(violations),
        "generator_late_s": round(max((trace.lateness for trace in traces), default=0.0), 3),
    }


def wer_numbers(parts: Iterable[WordErrors]) -> Json:
    """Words, WER and its 95 % interval, of utterances or parts of them."""
    errors = list(parts)
    return {
        "words": total(errors).words,
        "wer_all": round(total(errors).rate, 4),
        "wer_interval": [round(bound, 4) for bound in metrics.bootstrap_interval(errors)],
    }


def wer_by_group(
    sessions: Sequence[Session],
    errors: Sequence[WordErrors],
    languages: Sequence[Sequence[str | None]],
) -> list[Json]:
    """WER with its 95 % interval, and language detection, by language and voices. languages: that
    were found in each session, of its turns; none if nobody says."""
    groups: dict[tuple[str, str], list[tuple[WordErrors, list[bool]]]] = {}
    for session, wrong, found in zip(sessions, errors, languages, strict=True):
        right = [language == session.language for language in found]
        groups.setdefault((session.language, session.split), []).append((wrong, right))
    results = []
    for (language, split), group in sorted(groups.items()):
        corpus = total(wrong for wrong, _ in group)
        told = [is_right for _, right in group for is_right in right]
        interval = metrics.bootstrap_interval([wrong for wrong, _ in group])
        results.append(
            {
                "language": language,
                "voices": split,
                "utterances": len(group),
                "words": corpus.words,
                "wer": round(corpus.rate, 4),
                "interval": [round(bound, 4) for bound in interval],
                "language_right": round(sum(told) / len(told), 4) if told else None,
            }
        )
    return results


def _was_sent(session: Session, trace: Trace) -> bool:
    """A session that broke off before its last word counts for the WER and as a drop, but not for
    the latencies: its words have no time."""
    return bool(session.words) and trace.seconds > session.words[-1].end


def _of_turns(pairs: Sequence[tuple[Session, Trace]]) -> Json:
    """By the server's own turns."""
    first = [metrics.first_text_latencies(t, s.words) for s, t in pairs]
    shown = [metrics.first_text_latencies(t, s.words, provisional=True) for s, t in pairs]
    finals = [metrics.final_latencies(t, s.words) for s, t in pairs]
    return {
        "first_text_s": metrics.summary([x for values in first for x in values]),
        "first_shown_s": metrics.summary([x for values in shown for x in values]),
        "final_s": metrics.summary([x for values in finals for x in values]),
    }


def _of_utterances(heard: Sequence[Latencies]) -> Json:
    """By the pauses of the reference, whatever the server takes for a turn."""
    return {
        "first_text_s": metrics.summary([x for found in heard for x in found.first_text]),
        "first_shown_s": metrics.summary([x for found in heard for x in found.first_shown]),
        "final_s": metrics.summary([x for found in heard for x in found.final]),
        "final_shown_s": metrics.summary([x for found in heard for x in found.final_shown]),
        "laal_s": metrics.summary([x for found in heard for x in found.laal]),
    }


def growth(lags: Sequence[tuple[float, float]]) -> float | None:
    """Seconds of lag per minute of audio; None for sessions that are too short to tell."""
    if max((at for at, _ in lags), default=0.0) < GROWTH_SECONDS:
        return None
    return round(metrics.slope_per_minute(lags), 4)


def lags_of(sessions: Sequence[Session], traces: Sequence[Trace]) -> list[list[float]]:
    """[end of the word, commit lag, settled lag] in seconds, evenly thinned to MOST_POINTS."""
    points = [
        [round(end, 2), round(commit, 3), round(settled, 3)]
        for session, trace in zip(sessions, traces, strict=True)
        if _was_sent(session, trace)
        for found in [latencies(trace, session.words)]
        for (end, commit), (_, settled) in zip(found.commit_lag, found.settled_lag, strict=True)
    ]
    if len(points) <= MOST_POINTS:
        return points
    kept = np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)
    return [points[place] for place in kept]

"""Which languages a recording is in: one may follow another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lookhear.engine.messages import FileTranscribed, Segment


def spoken(segments: Sequence[Segment]) -> list[str]:
    """ISO codes, that in which most is said first; those that are known."""
    counts: Counter[str] = Counter()
    for segment in segments:
        if segment.language is not None:
            counts[segment.language] += len(segment.tokens)
    return [code for code, _ in counts.most_common()]


def last_language(heard: FileTranscribed) -> str | None:
    """What was spoken at its end."""
    known = [segment.language for segment in heard.segments if segment.language is not None]
    return known[-1] if known else heard.language


def told(heard: FileTranscribed) -> list[dict[str, str]]:
    """As `languages` of an answer; empty where none is known."""
    codes = spoken(heard.segments)
    if not codes and heard.language is not None:
        codes = [heard.language]
    return [{"code": code} for code in codes]

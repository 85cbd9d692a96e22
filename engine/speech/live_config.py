"""How live turns are heard: when, how much at once, and when a word is said for good."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lookhear.engine.messages import SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """All in samples at 16 kHz unless said otherwise."""

    # Least new audio between two ticks.
    tick: int = SAMPLE_RATE // 4
    # Silence after the last speech that a tick must have heard for its hypothesis to be complete.
    tail: int = SAMPLE_RATE * 3 // 20
    # Silence that closes a segment which is at least `roll` long.
    pause: int = SAMPLE_RATE * 7 // 10
    # Length from which on a pause is a good place to begin anew.
    roll: int = 0
    # Silence that closes any segment.
    long_pause: int = SAMPLE_RATE * 3
    # Longest open segment; beyond it the segment is cut at a quiet place.
    cap: int = SAMPLE_RATE * 14
    # Audio among which that place is sought.
    search: int = SAMPLE_RATE
    # Audio kept before the first speech.
    lead: int = SAMPLE_RATE // 2
    # Silence put in front of every segment.
    lead_in: int = SAMPLE_RATE // 10
    # Audio of a segment, padding included, before which nothing is committed.
    warm_up: int = SAMPLE_RATE * 7 // 10
    # Ticks in a row that must hear a word alike.
    agreeing_ticks: int = 2
    # Words at the edge of the audio that wait all the same.
    held_words: int = 1
    # Log-probability below which a token, and what follows it, waits for the silence after the
    # speech.
    least_logprob: float = -math.inf
    # Longest turn or file, for whoever feeds it.
    max_samples: int = SAMPLE_RATE * 3600
    # Whether the last hypothesis is verified in one pass.
    draft: bool = True

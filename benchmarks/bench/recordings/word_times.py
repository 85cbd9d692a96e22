"""Where the words of a recording are, when only its text is known: an estimate from loudness.

Letters are spread evenly over the stretches in which somebody speaks. No model has a say in it, so
it favours none; docs/benchmarks/turns.md says how far off it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.trace import SpokenWord

FRAME_SECONDS = 0.02
QUIET = 0.05  # of the loud frames' level (the 90th percentile): below it nobody speaks
PAUSE_FRAMES = 8  # shorter ones are within words
LETTERS_OF_A_SYMBOL = 7  # "#" is said in full
TAIL = 1.0  # of a letter: what a word takes beside its letters


def spoken_words(samples: NDArray[np.float32], rate: int, text: str) -> tuple[SpokenWord, ...]:
    """The words of a text with their estimated places in [n] samples, in seconds."""
    words = [word for word in text.split() if any(c.isalnum() or c in "#*" for c in word)]
    if not words:
        return ()
    stretches = speech(samples, rate)
    lengths = [end - start for start, end in stretches]
    weights = np.array([_weight(word) for word in words])
    edges = np.concatenate([[0.0], np.cumsum(weights)]) * sum(lengths) / weights.sum()
    # Seconds of speech -> seconds of the recording. A word begins behind a pause, not before it.
    passed = np.concatenate([[0.0], np.cumsum(lengths)])
    found = []
    for word, begin, end in zip(words, edges[:-1], edges[1:], strict=True):
        first = min(int(np.searchsorted(passed, begin + 1e-9, side="right")) - 1, len(lengths) - 1)
        last = max(0, int(np.searchsorted(passed, end - 1e-9, side="left")) - 1)
        start = stretches[first][0] + begin - passed[first]
        found.append(SpokenWord(word, float(start), float(stretches[last][0] + end - passed[last])))
    return tuple(found)


def speech(samples: NDArray[np.float32], rate: int) -> list[tuple[float, float]]:
    """The stretches in which somebody speaks, in seconds, in order; at least one."""
    size = int(FRAME_SECONDS * rate)
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    level = np.sqrt((frames.astype(np.float64) ** 2).mean(axis=1))
    if not level.any():
        return [(0.0, len(samples) / rate)]
    (loud,) = np.nonzero(level >= QUIET * np.percentile(level, 90))
    cuts = np.nonzero(np.diff(loud) > PAUSE_FRAMES)[0] + 1
    return [
        (float(part[0]) * FRAME_SECONDS, float(part[-1] + 1) * FRAME_SECONDS)
        for part in np.split(loud, cuts)
        if len(part) > 2 or len(cuts) == 0
    ] or [(0.0, len(samples) / rate)]


def _weight(word: str) -> float:
    return TAIL + sum(
        1.0 if c.isalpha() else LETTERS_OF_A_SYMBOL if c in "#*" else 4.0 if c.isdigit() else 0.0
        for c in word
    )

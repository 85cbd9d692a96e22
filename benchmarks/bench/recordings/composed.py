"""Long recordings out of short ones, and what a line or a room does to them. All from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import soxr
from numpy.typing import NDArray

from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.sounds import chords, noise

PAUSES = (0.3, 1.5)  # seconds
LEAD_SECONDS = 0.3
TELEPHONE_RATE = 8_000
INTERLUDE_EVERY = 4  # utterances
INTERLUDE_SECONDS = 4.0
INTERLUDE_LEVEL = 0.03  # of full scale: some 10 dB below the speech
Pieces = Sequence[Session]


def minutes_long(
    utterances: Pieces,
    seconds: float,
    *,
    name: str,
    pauses: tuple[float, float] = PAUSES,
    interludes: bool = False,
    seed: int = 0,
) -> list[Session]:
    """The utterances in their order, in recordings that end with the first beyond `seconds`; what
    is left over at the end is a shorter one.

    pauses: drawn between these bounds, behind each. interludes: now and then noise or music in one.
    """
    draw = np.random.default_rng(seed)
    found: list[Session] = []
    taken: list[Session] = []
    gaps: list[NDArray[np.int16]] = []
    length = 0.0
    for number, utterance in enumerate(utterances, 1):
        gap = np.zeros(int(draw.uniform(*pauses) * RATE), "<i2")
        if interludes and number % INTERLUDE_EVERY == 0:
            make = noise if number % (2 * INTERLUDE_EVERY) else chords
            gap = np.concatenate([gap, pcm(make(INTERLUDE_SECONDS, draw) * INTERLUDE_LEVEL), gap])
        taken.append(utterance)
        gaps.append(gap)
        length += (len(utterance.pcm) + len(gap)) / RATE
        if length >= seconds or number == len(utterances):
            found.append(_joined(f"{name} {len(found)}", taken, gaps))
            taken, gaps, length = [], [], 0.0
    return found


def _joined(name: str, utterances: Pieces, gaps: Sequence[NDArray[np.int16]]) -> Session:
    pieces = [np.zeros(int(LEAD_SECONDS * RATE), "<i2")]
    words: list[SpokenWord] = []
    changes: list[tuple[float, str]] = []
    at = len(pieces[0])
    for utterance, gap in zip(utterances, gaps, strict=True):
        start = at / RATE
        if not changes or changes[-1][1] != utterance.language:
            changes.append((start if changes else 0.0, utterance.language))
        words += [replace(w, start=w.start + start, end=w.end + start) for w in utterance.words]
        pieces += [utterance.pcm, gap]
        at += len(utterance.pcm) + len(gap)
    first, parts = utterances[0], tuple(utterance.text for utterance in utterances)
    is_mixed = len(changes) > 1
    return Session(
        name,
        np.concatenate(pieces),
        " ".join(parts),
        tuple(words),
        "" if is_mixed else first.language,
        spelling=first.spelling,
        parts=parts,
        changes=tuple(changes) if is_mixed else (),
    )


def noisy(decibels: float, seed: int = 0) -> Callable[[Session], Session]:
    """Adds pink noise that much below the level of the speech itself, pauses not counted."""

    def add(session: Session) -> Session:
        samples = session.pcm / 32768.0
        level = _level(session) * 10 ** (-decibels / 20)
        # A sample more: seconds times the rate may end just below a whole number.
        hiss = noise((len(samples) + 1) / RATE, np.random.default_rng(seed))[: len(samples)]
        return replace(session, pcm=pcm(samples + hiss * level))

    return add


def beside(utterances: Sequence[Session], decibels: float, seed: int) -> Callable[..., Session]:
    """Adds somebody who says these without a pause, that much below the level of the speech."""
    order = np.random.default_rng(seed).permutation(len(utterances))
    level = np.mean([_level(utterance) for utterance in utterances])
    other = np.concatenate([utterances[i].pcm / 32768.0 for i in order])

    def add(session: Session) -> Session:
        gain = _level(session) / level * 10 ** (-decibels / 20)
        background = np.resize(other, len(session.pcm)) * gain
        return replace(session, pcm=pcm(session.pcm / 32768.0 + background))

    return add


def _level(session: Session) -> float:
    """Root mean square of its words, of full scale."""
    samples = session.pcm / 32768.0
    spoken = [samples[int(w.start * RATE) : int(w.end * RATE)] for w in session.words]
    return float(np.sqrt((np.concatenate(spoken) ** 2).mean()))


def telephone(session: Session) -> Session:
    """As it comes over a line of 8 kHz in mu-law (G.711)."""
    narrow = soxr.resample(session.pcm / 32768.0, RATE, TELEPHONE_RATE)
    mu = 255.0
    coded = np.sign(narrow) * np.log1p(mu * np.abs(narrow.clip(-1, 1))) / np.log1p(mu)
    coded = np.rint(coded * 127) / 127  # eight bits
    decoded = np.sign(coded) * np.expm1(np.abs(coded) * np.log1p(mu)) / mu
    wide = soxr.resample(decoded, TELEPHONE_RATE, RATE)
    return replace(session, pcm=pcm(wide))


def pcm(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    """[n] samples of -1 to 1 as 16 bits."""
    return np.asarray(np.clip(np.rint(samples * 32768.0), -32768, 32767), "<i2")

"""What people's recordings are made into before they are heard, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lookhear.bench.recordings.composed import beside, minutes_long, noisy, telephone
from lookhear.bench.recordings.session import Session
from lookhear.errors import UsageError

WITHOUT_PAUSES = (0.02, 0.02)
MIXED = "mixed"  # a condition of all languages together
IN_A_ROW = 3  # utterances at most, before the language changes
Compose = Callable[[Sequence[Session], float, int], list[Session]]
"""Utterances of one language, seconds of each recording, a seed."""


def _long(
    change: Callable[[Session], Session] = lambda session: session,
    pauses: tuple[float, float] | None = None,
    interludes: bool = False,
) -> Compose:
    def compose(utterances: Sequence[Session], seconds: float, seed: int) -> list[Session]:
        options = {} if pauses is None else {"pauses": pauses}
        name = utterances[0].language
        made = minutes_long(
            utterances, seconds, name=name, interludes=interludes, seed=seed, **options
        )
        return [change(session) for session in made]

    return compose


def _television(utterances: Sequence[Session], seconds: float, seed: int) -> list[Session]:
    add = beside(utterances, 15.0, seed)
    return [add(session) for session in _long()(utterances, seconds, seed)]


CONDITIONS: dict[str, Compose] = {
    "utterances": lambda utterances, seconds, seed: list(utterances),
    "pauses": _long(),
    "joined": _long(pauses=WITHOUT_PAUSES),
    "interludes": _long(interludes=True),
    "noise-20": _long(noisy(20.0)),
    "noise-10": _long(noisy(10.0)),
    "telephone": _long(telephone),
    "television": _television,
}


def by_turns(
    by_language: Mapping[str, Sequence[Session]], seconds: float, seed: int
) -> list[Session]:
    """Recordings of so many seconds in which the language changes behind one to IN_A_ROW
    utterances, with pauses; all languages have as many of them as the one with the fewest."""
    most = min(map(len, by_language.values()))
    draw, taken, at = np.random.default_rng(seed), list[Session](), 0
    while at < most:
        count = int(draw.integers(1, IN_A_ROW, endpoint=True))
        for said in by_language.values():
            taken += said[at : min(at + count, most)]
        at += count
    return minutes_long(taken, seconds, name=MIXED, seed=seed)


def composed(
    condition: str, utterances: Sequence[Session], minutes: float, seed: int
) -> list[Session]:
    """The utterances, language by language, as `condition` has them. UsageError."""
    if condition not in CONDITIONS:
        raise UsageError(f"--condition: expected one of {', '.join(CONDITIONS)}, got {condition!r}")
    if minutes <= 0:
        raise UsageError(f"--minutes: expected more than 0, got {minutes:g}")
    languages = dict.fromkeys(utterance.language for utterance in utterances)
    return [
        session
        for language in languages
        for session in CONDITIONS[condition](
            [u for u in utterances if u.language == language], 60 * minutes, seed
        )
    ]

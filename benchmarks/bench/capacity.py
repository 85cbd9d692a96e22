"""How many live sessions a server holds: the search, apart from what is measured.

Doubling from one session until a probe fails, then bisection. A probe that says nothing, because
the load generator itself was late, is repeated once and then ends the search from above: the
answer is what was shown to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BY_BOUND = "bound"  # a probe failed
BY_GENERATOR = "generator"  # the generator could not keep up: the server may hold more
BY_MOST = "most"  # the most that was asked for holds


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a session must get. Seconds, but wer_slack: WER above that of one session.

    growth: of the lag, seconds per minute of audio. late: of the generator's worst packet; a probe
    beyond it says nothing. settled: text counts from when it was shown and did not change any
    more, though the server had not committed it; else only committed text counts.
    """

    lag: float = 2.0
    final: float = 2.0
    wer_slack: float = 0.01
    growth: float = 0.5
    late: float = 0.5
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """holds: None if it says nothing. reasons: why it does not hold, or says nothing."""

    sessions: int
    holds: bool | None
    reasons: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capacity:
    """sessions: the most that were shown to hold, 0 if one is too many."""

    sessions: int
    limited_by: str
    probes: tuple[Probe, ...]


def search(probe: Callable[[int], Probe], most: int, tolerance: float = 0.0) -> Capacity:
    """The largest number of sessions up to `most` that holds.

    tolerance: how far, as a share of the answer, the first that fails may be above it. If holding
    is not monotone (noise), the answer still holds in its own probe, and some larger one failed.
    """
    if most < 1:
        raise ValueError(f"expected at least one session, got {most}")
    probes: list[Probe] = []

    def ask(sessions: int) -> Probe:
        probes.append(probe(sessions))
        if probes[-1].holds is None:
            probes.append(probe(sessions))
        return probes[-1]

    low, sessions, failed = 0, 1, None
    while failed is None and low < most:
        answer = ask(sessions)
        if answer.holds:
            low, sessions = sessions, min(most, 2 * sessions)
        else:
            failed = answer
    if failed is None:
        return Capacity(low, BY_MOST, tuple(probes))
    while failed.sessions - low > max(1.0, tolerance * low):
        answer = ask((low + failed.sessions) // 2)
        if answer.holds:
            low = answer.sessions
        else:
            failed = answer
    return Capacity(low, BY_GENERATOR if failed.holds is None else BY_BOUND, tuple(probes))


def verdict(
    sessions: int, numbers: Mapping[str, Any], single_wer: float | None, bounds: Bounds
) -> Probe:
    """What `numbers.live_numbers` say of a probe. single_wer: of one session alone,
    None if this is it."""
    kind, final = ("settled", "final_shown_s") if bounds.settled else ("commit", "final_s")
    lag, last = numbers[f"{kind}_lag_s"], numbers["utterance"][final]
    reasons = []
    if numbers["drops"]:
        reasons.append(f"{numbers['drops']} sessions dropped")
    for name, found, bound in (("lag", lag, bounds.lag), ("final text", last, bounds.final)):
        if not found["n"]:
            reasons.append(f"no {kind} {name}")
        elif found["p95"] > bound:
            reasons.append(f"p95 {kind} {name} {found['p95']:.2f} s > {bound:g} s")
    growth = numbers[f"{kind}_lag_growth_s_per_minute"]
    if growth is not None and growth > bounds.growth:
        reasons.append(f"lag grows {growth:.2f} s per minute")
    wer = numbers["wer_all"]
    if single_wer is not None and wer > single_wer + bounds.wer_slack:
        reasons.append(f"WER {wer:.1%}, alone {single_wer:.1%}")
    if numbers["generator_late_s"] > bounds.late:
        late = f"the generator was {numbers['generator_late_s']:.2f} s late"
        return Probe(sessions, None, (late, *reasons), numbers)
    return Probe(sessions, not reasons, tuple(reasons), numbers)

"""What good clients noticed of an attack, and whether that is little enough. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LAG_TIMES, LAG_MORE = 1.5, 0.1  # of the undisturbed p95, and seconds
HEALTH_SECONDS = 0.2
MEMORY_SHARE, MEMORY_MORE = 1.15, 64.0  # of before, and MiB: back is below


@dataclass(frozen=True, slots=True)
class Seen:
    """By the good clients, while one attack or none went on. texts: of each session. lag, final:
    p95, seconds. health: the slowest answer of /health, infinite if one never came. memory_before,
    memory_peak, memory_after: MiB of all the server's processes; after: the least within the time
    that it has to come back."""

    texts: Sequence[str]
    lag: float
    final: float
    health: float
    drops: int
    memory_before: float
    memory_peak: float
    memory_after: float


def reasons(calm: Seen, seen: Seen) -> list[str]:
    """Why an attack was noticed too much; none if it was not."""
    found = []
    most = LAG_TIMES * calm.lag + LAG_MORE
    if seen.lag > most:
        found.append(f"p95 lag {seen.lag:.2f} s, at most {most:.2f}")
    if seen.health > HEALTH_SECONDS:
        found.append(f"/health took {seen.health:.2f} s, at most {HEALTH_SECONDS:g}")
    if seen.drops:
        found.append(f"{seen.drops} sessions broke off")
    other = sum(a != b for a, b in zip(calm.texts, seen.texts, strict=True))
    if other:
        found.append(f"{other} texts are others")
    back = MEMORY_SHARE * seen.memory_before + MEMORY_MORE
    if seen.memory_after > back:
        found.append(f"memory stays at {seen.memory_after:.0f} MiB, at most {back:.0f}")
    return found

"""How each kernel is cut up: a small table of safe defaults, by the size that matters to it.

Chosen by arithmetic for Ampere and Hopper, not yet by measurement.
"""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """size: elements, rows or keys of one program, as the kernel's launch says. warps: of 32
    threads. stages: loads in flight in a loop."""

    size: int
    warps: int
    stages: int = 1


# Per kernel: (up to this size, tile), the last for all beyond.
_TABLE: dict[str, tuple[tuple[float, Tile], ...]] = {
    # By width; size: rows of one program. A row is held in registers whole.
    "norm": (
        (128, Tile(8, 4)),
        (256, Tile(4, 4)),
        (1024, Tile(1, 4)),
        (4096, Tile(1, 8)),
        (float("inf"), Tile(1, 16)),
    ),
    # Size: elements.
    "elementwise": ((float("inf"), Tile(1024, 4)),),
    # By head dim; size: keys of one turn of the loop. A turn's keys and values of all stages lie in
    # shared memory: 2 * stages * size * dim * 2 bytes, at most 99 KiB on the smaller cards.
    "decode attention": (
        (64, Tile(64, 4, 3)),
        (128, Tile(64, 4, 2)),
        (float("inf"), Tile(32, 4, 2)),
    ),
    "prefill attention": (
        (64, Tile(64, 4, 3)),
        (128, Tile(64, 4, 2)),
        (float("inf"), Tile(32, 4, 2)),
    ),
    "encoder attention": (
        (64, Tile(64, 4, 3)),
        (128, Tile(64, 8, 2)),
        (float("inf"), Tile(32, 8, 2)),
    ),
    # Size: logits of one program, or of one turn of the loop.
    "vocabulary": ((float("inf"), Tile(4096, 8)),),
}


def tile(kernel: str, size: int) -> Tile:
    """The tile of a kernel of the table."""
    return next(found for limit, found in _TABLE[kernel] if size <= limit)

"""What is measured: every kernel and size class of the table, with the tiles that are tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from lookhear.kernels.triton.configs import Tile, defaults
from lookhear.kernels.triton.tuning import calls
from lookhear.kernels.triton.tuning.calls import Calls
from lookhear.kernels.triton.tuning.steps import (
    LARGE,
    LARGE_FP8,
    SMALL,
    SMALL_FP8,
    TURBO,
    decode_steps,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One size class of a kernel. limit: as in the table. candidates: the default is added. calls:
    what is compared, and timed where there are no steps: whole decode steps, timed as graphs.
    rivals: how the library does the calls."""

    kernel: str
    limit: float
    candidates: tuple[Tile, ...]
    calls: Calls
    steps: Calls | None = None
    rivals: Mapping[str, Calls] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of kernel and size."""
        return f"{self.kernel} {'all' if math.isinf(self.limit) else int(self.limit)}"

    @property
    def default(self) -> Tile:
        """The tile that this size has where nothing was measured."""
        size = 1e9 if math.isinf(self.limit) else self.limit
        return next(found for limit, found in defaults()[self.kernel] if size <= limit)

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The default and what is tried instead, once each."""
        return tuple(dict.fromkeys((self.default, *self.candidates)))


def cases() -> Iterator[Case]:
    """All of them, those of a decode step first."""
    # A program has an output a warp at least: 4 for 8 warps would be 8.
    few = (
        Tile(1, 1),
        *_tiles((8, 4, 16), (4,), (8, 4, 2)),
        *_tiles((8, 16), (8,), (8, 4, 2)),
    )
    for rows in (1, 2, 4, 8):
        for kernel, decoders in (
            ("few rows", (LARGE, SMALL, TURBO)),
            ("few rows, norm", (LARGE, SMALL)),
            ("few rows, gated", (LARGE, SMALL)),
        ):
            steps = decode_steps([(decoder, rows, 400) for decoder in decoders])
            yield Case(kernel, rows, few, calls.few_rows_calls(rows, kernel), steps)
    # A load meets twice as many inputs.
    few = _tiles((8, 4, 16), (4,), (4, 2, 1)) + _tiles((8, 16), (8,), (4, 2, 1))
    for rows in (1, 2, 4):
        for kernel in ("few rows 8 bits", "few rows 8 bits, norm", "few rows 8 bits, gated"):
            steps = decode_steps([(decoder, rows, 400) for decoder in (LARGE_FP8, SMALL_FP8)])
            yield Case(kernel, rows, few, calls.few_rows_calls(rows, kernel), steps)
    for rows in (16, 64):
        yield Case(
            "rows int8", rows, _tiles((16, 32, 64), (4, 8), (4, 3, 2)), calls.int8_calls(rows)
        )
    tiles = _tiles((8, 4, 16), (2, 4, 1), (4, 2, 8, 1))
    for rows in (1, 2, 4):
        for kernel in ("few rows 4 bits", "few rows 4 bits, norm", "few rows 4 bits, gated"):
            yield Case(kernel, rows, tiles, calls.few_rows_calls(rows, kernel))
    for rows in (16, 64):
        yield Case(
            "rows int4", rows, _tiles((16, 32, 64), (4, 8), (4, 3, 2)), calls.int4_calls(rows)
        )
    tiles = _tiles((64, 32, 128), (4, 8, 2), (2, 3, 4, 1))
    for dim, steps in (
        (64, decode_steps([(TURBO, 1, 100), (TURBO, 64, 100)])),
        (128, decode_steps([(LARGE, 1, 400), (LARGE, 1, 3000), (LARGE, 64, 400)])),
    ):
        yield Case("decode attention", dim, tiles, calls.decode_calls(dim), steps)
    for dim in (64, 128):
        # The likely ones first. 128 keys do not fit into the registers of 4 warps.
        tiles = _tiles((64, 128), (8,), (3, 2, 4)) + _tiles((64, 32), (4,), (3, 2, 4))
        yield Case(
            "encoder attention", dim, tiles, calls.encoder_calls(dim),
            rivals=calls.encoder_rivals(dim),
        )  # fmt: skip
        yield Case(
            "prefill attention", dim, tiles, calls.prefill_calls(dim),
            rivals=calls.prefill_rivals(dim),
        )  # fmt: skip
    for limit, width in (
        (128, 128),
        (256, 256),
        (1024, 1024),
        (1280, 1280),
        (4096, 2048),
        (math.inf, 8192),
    ):
        sizes = (1, 2, 4, 8, 16) if limit <= 256 else (1, 2)
        tiles = _tiles(sizes, (1, 2, 4, 8, 16), (1,))
        yield Case("norm", limit, tiles, calls.norm_calls(width))
    # The most rows at a time are the kernel's own: see `kernels.triton.experts`.
    yield Case("experts", 16, _tiles((16, 32, 64), (2, 4, 8), (3, 4, 5)), calls.expert_calls(16))
    tiles = _tiles((32, 64, 128), (4, 8), (2, 3, 4))
    yield Case("experts", math.inf, tiles, calls.expert_calls(128))
    tiles = _tiles((512, 1024, 2048, 4096), (4, 8), (1,))
    yield Case("elementwise", math.inf, tiles, calls.activation_calls)
    tiles = _tiles((1024, 2048, 4096, 8192), (4, 8, 16), (1,))
    yield Case("vocabulary", math.inf, tiles, calls.choice_calls)


def _tiles(sizes: Sequence[int], warps: Sequence[int], stages: Sequence[int]) -> tuple[Tile, ...]:
    return tuple(Tile(*numbers) for numbers in product(sizes, warps, stages))

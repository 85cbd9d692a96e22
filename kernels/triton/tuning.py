"""Measurements of tiles on the card that is there. See `lookhear tune`.

For every kernel of the table and every size class: the calls that real models make of that class
(one row, many rows), under every candidate. A candidate has to give the default's numbers, and is
taken if it is faster by more than measurements wander, in the geometric mean over the calls.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor

from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.triton import (
    activations,
    attention,
    cached_attention,
    linear,
    norms,
    paged_attention,
    self_attention_paged,
)
from lookhear.kernels.triton import sampling as choices
from lookhear.kernels.triton.configs import DEFAULTS, Tile, trying, user_path

Call = Callable[[], Tensor]
GAIN = 0.97  # of the default's time, at most: less is noise


@dataclass(frozen=True, slots=True)
class Case:
    """One size class of a kernel. limit: as in the table. candidates: the default is added."""

    kernel: str
    limit: float
    candidates: tuple[Tile, ...]
    calls: Callable[[torch.device], list[Call]]

    @property
    def default(self) -> Tile:
        """The tile that this size has where nothing was measured."""
        size = 1e9 if math.isinf(self.limit) else self.limit
        return next(found for limit, found in DEFAULTS[self.kernel] if size <= limit)


def cases() -> Iterator[Case]:
    """Every kernel and size class of the table."""
    for limit, width in (
        (128, 128),
        (256, 256),
        (1024, 1024),
        (1280, 1280),
        (4096, 2048),
        (math.inf, 8192),
    ):
        rows = (1, 2, 4, 8, 16) if limit <= 256 else (1, 2)
        yield Case("norm", limit, _tiles(rows, (1, 2, 4, 8, 16), (1,)), _norm_calls(width))
    yield Case(
        "elementwise", math.inf, _tiles((512, 1024, 2048, 4096), (4, 8), (1,)), _activation_calls
    )
    yield Case(
        "vocabulary", math.inf, _tiles((1024, 2048, 4096, 8192), (4, 8, 16), (1,)), _choice_calls
    )
    few = (Tile(1, 1), *_tiles((4, 8, 16), (4, 8), (2, 4, 8)))
    for limit in (1, 2, 4, 8):
        yield Case("few rows", limit, few, _few_rows_calls(limit))
    for limit, dim in ((64, 64), (128, 128)):
        tiles = _tiles((32, 64, 128), (2, 4, 8), (1, 2, 3, 4))
        yield Case("decode attention", limit, tiles, _decode_calls(dim))
        # The likely ones first. 128 keys do not fit into the registers of 4 warps.
        tiles = _tiles((64, 128), (8,), (3, 2, 4)) + _tiles((64, 32), (4,), (3, 2, 4))
        yield Case("prefill attention", limit, tiles, _prefill_calls(dim))
        yield Case("encoder attention", limit, tiles, _encoder_calls(dim))


def tune(
    output: Path | None = None, kernels: Sequence[str] | None = None, *, seconds: float = 240.0
) -> Path:
    """Measures, prints a line per case, writes the table; returns where. ValueError for a kernel
    that is not in the table. What the time does not suffice for keeps its default."""
    unknown = sorted(set(kernels or ()) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"kernel: expected one of {', '.join(DEFAULTS)}, got {unknown[0]!r}")
    name = torch.cuda.get_device_name()
    path = output or user_path(name)
    found: dict[str, list[Any]] = {}
    measured: dict[str, Any] = {}
    todo = [case for case in cases() if kernels is None or case.kernel in kernels]
    end = time.monotonic() + seconds
    for number, case in enumerate(todo):
        share = (end - time.monotonic()) / (len(todo) - number)
        best, times = measure(case, torch.device("cuda"), share)
        limit = None if math.isinf(case.limit) else int(case.limit)
        found.setdefault(case.kernel, []).append([limit, list(best)])
        measured[f"{case.kernel} {limit or 'all'}"] = times
        print(f"{case.kernel:18} up to {limit or 'any':>5}: {_shown(case, best, times)}")
        _write(path, name, found, measured)  # as it comes: a run that is cut off is worth something
    return path


def measure(
    case: Case, device: torch.device, seconds: float
) -> tuple[Tile, dict[str, dict[str, float]]]:
    """The best tile of a case, and what was measured: tile -> call -> milliseconds."""
    calls = case.calls(device)
    end = time.monotonic() + seconds
    with trying(case.kernel, case.default):
        expected = [call() for call in calls]
    scores: dict[Tile, float] = {}
    times: dict[str, dict[str, float]] = {}
    for candidate in dict.fromkeys((case.default, *case.candidates)):
        if scores and time.monotonic() > end:
            break
        row = _times(case.kernel, candidate, calls, expected)
        if row is not None:
            times[_name(candidate)] = {str(i): ms for i, ms in enumerate(row)}
            scores[candidate] = math.exp(sum(map(math.log, row)) / len(row))
    best = min(scores, key=scores.__getitem__, default=case.default)
    if scores.get(case.default, 0.0) * GAIN < scores.get(best, 1.0):
        best = case.default
    return best, times


def _times(
    kernel: str, candidate: Tile, calls: Sequence[Call], expected: Sequence[Tensor]
) -> list[float] | None:
    """Milliseconds of each call; None if the card refuses, or the numbers are others."""
    with trying(kernel, candidate):
        try:
            for call, right in zip(calls, expected, strict=True):
                torch.testing.assert_close(call(), right, atol=2e-2, rtol=2e-2)
            return [float(triton.testing.do_bench(call, warmup=5, rep=25)) for call in calls]
        except (AssertionError, RuntimeError, triton.runtime.errors.OutOfResources):
            return None


def _tiles(sizes: Sequence[int], warps: Sequence[int], stages: Sequence[int]) -> tuple[Tile, ...]:
    return tuple(Tile(*numbers) for numbers in product(sizes, warps, stages))


def _name(tile: Tile) -> str:
    return f"{tile.size}/{tile.warps}/{tile.stages}"


def _shown(case: Case, best: Tile, times: dict[str, dict[str, float]]) -> str:
    def mean(tile: Tile) -> float:
        row = times.get(_name(tile), {0: math.nan}).values()
        return math.exp(sum(map(math.log, row)) / len(row)) * 1000

    if best == case.default:
        return f"default {_name(best)}, {mean(best):.1f} us ({len(times)} tried)"
    return f"{_name(best)}, {mean(best):.1f} us instead of {mean(case.default):.1f}"


def _write(path: Path, device: str, tiles: dict[str, list[Any]], measured: dict[str, Any]) -> None:
    # A table has every limit up to infinity: what has none yet ends with the default.
    whole = {}
    for kernel, rows in tiles.items():
        rest = [] if rows[-1][0] is None else [[None, list(DEFAULTS[kernel][-1][1])]]
        whole[kernel] = [*rows, *rest]
    document = {
        "device": device,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "tiles": whole,
        "milliseconds": measured,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


# --- the calls -----------------------------------------------------------------------------------


def _draw(device: torch.device, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(shape, device=device, dtype=torch.float32).to(dtype)


def _index(device: torch.device, *values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=device)


def _normed(x: Tensor, weight: Tensor) -> Tensor:
    return norms.add_rms_norm(x, x, weight, 1e-6)[0]


def _activated(x: Tensor) -> Tensor:
    return activations.gelu_(x * 1.0)


def _chosen(x: Tensor) -> Tensor:
    return choices.token_logprobs(x, choices.argmax(x))


def _norm_calls(width: int) -> Callable[[torch.device], list[Call]]:
    def calls(device: torch.device) -> list[Call]:
        weight = _draw(device, width)
        made: list[Call] = []
        for rows in (1, 64, 1500):
            x = _draw(device, rows * (24 if width <= 256 else 1), width)
            made.append(partial(_normed, x, weight))
            made.append(partial(norms.layer_norm, x, weight, weight))
        return made

    return calls


def _few_rows_calls(rows: int) -> Callable[[torch.device], list[Call]]:
    """Of a layer of a decoder with 1.7 billion parameters, and its head."""

    def calls(device: torch.device) -> list[Call]:
        def drawn(outs: int, inner: int) -> LinearWeights:
            return LinearWeights(_draw(device, outs, inner) / inner**0.5, None, False, outs, inner)

        def normed(weights: LinearWeights, gated: bool) -> Tensor:
            return linear.norm_linear(x, x, norm, 1e-6, weights, gated=gated)[0]

        x, wide, norm = (_draw(device, *shape) for shape in ((rows, 2048), (rows, 6144), (2048,)))
        return [
            partial(normed, drawn(4096, 2048), False),
            partial(linear.linear, x, drawn(2048, 2048)),
            partial(normed, drawn(12_288, 2048), True),
            partial(linear.linear, wide, drawn(2048, 6144)),
            partial(linear.linear, x, drawn(151_936, 2048)),
        ]

    return calls


def _activation_calls(device: torch.device) -> list[Call]:
    made: list[Call] = []
    for rows in (1, 64, 1500):
        x = _draw(device, rows, 2 * 6144)
        made += [partial(activations.swiglu, x), partial(_activated, x)]
    return made


def _choice_calls(device: torch.device) -> list[Call]:
    made: list[Call] = []
    for rows, vocab in ((1, 151_936), (64, 151_936), (1, 51_866), (64, 51_866)):
        x = _draw(device, rows, vocab, dtype=torch.float32)
        made.append(partial(_chosen, x))
    return made


def _paged(device: torch.device, dim: int, rows: int, past: int, new: int) -> Call:
    kv_heads, blocks = 8, -(-(past + new) // 16)
    cache = _draw(device, 2, 1 + rows * blocks, 16, kv_heads, dim)
    tables = torch.arange(1, 1 + rows * blocks, device=device).view(rows, blocks)
    q = _draw(device, rows * new, 2 * kv_heads, dim)
    lengths = _index(device, *[past] * rows), _index(device, *[new] * rows)
    return lambda: paged_attention.paged_attention(q, cache, tables, *lengths)


def _self_attention(device: torch.device, rows: int, past: int, dim: int) -> Call:
    kv_heads, blocks = 8, past // 16 + 1
    cache = _draw(device, 2, 1 + rows * blocks, 16, kv_heads, dim)
    tables = torch.arange(1, 1 + rows * blocks, device=device).view(rows, blocks)
    qkv = _draw(device, rows, 4 * kv_heads, dim)
    weight, angle = _draw(device, 3 * kv_heads, dim), _draw(device, rows, 1, dim)
    lengths = _index(device, *[past] * rows), _index(device, *[1] * rows)
    slots = tables[:, past // 16] * 16 + past % 16
    return lambda: self_attention_paged.self_attention_paged(
        qkv, weight, 1e-6, angle, angle, cache, slots, tables, *lengths, is_decode=True
    )


def _decode_calls(dim: int) -> Callable[[torch.device], list[Call]]:
    def calls(device: torch.device) -> list[Call]:
        audio = _draw(device, 8, 2, 16, 1500, dim)
        shapes = ((1, 400), (1, 3000), (64, 400))
        made = [_self_attention(device, rows, past, dim) for rows, past in shapes]
        for rows in (1, 64):
            q = _draw(device, rows, 1, 16, dim)
            slots, lengths = (
                _index(device, *range(8)).repeat(8)[:rows],
                _index(device, *[1500] * rows),
            )
            made.append(partial(cached_attention.cross_attention_cached, q, audio, slots, lengths))
        return made

    return calls


def _prefill_calls(dim: int) -> Callable[[torch.device], list[Call]]:
    def calls(device: torch.device) -> list[Call]:
        window = _draw(device, 4 * 104, 3 * 16, dim)
        q, k, v = window.chunk(3, dim=1)
        bounds = _index(device, 0, 104, 208, 312, 416)
        return [
            _paged(device, dim, 1, 300, 128),
            _paged(device, dim, 4, 300, 128),
            _paged(device, dim, 1, 0, 2048),
            lambda: attention.windowed_attention(q, k, v, bounds),
        ]

    return calls


def _encoder_calls(dim: int) -> Callable[[torch.device], list[Call]]:
    def calls(device: torch.device) -> list[Call]:
        made: list[Call] = []
        for batch, positions in ((1, 1500), (8, 1500), (8, 400)):
            q, k, v = _draw(device, batch, positions, 3 * 20, dim).chunk(3, dim=2)
            made.append(partial(attention.attention, q, k, v, scale=1.0))
        return made

    return calls

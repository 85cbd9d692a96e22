"""Products beside low-rank changes against their formula, in every layout of the weights."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from lookhear import kernels
from lookhear.kernels import AdaptedWeights, LinearWeights, RowAdapters, Segment, UpPart

SLOTS, RANKS, IN, OUTS = 3, (2, 4), 640, (320, 400)
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"pack": False},
    "packed": {"pack": True},
    "half": {"half": True},
    "int8": {"int8": True, "pack": True},
    "int4": {},
}


class Pair:
    """Two linears in one product, and the changes of three adapters of it."""

    def __init__(self, layout: str) -> None:
        generator = torch.Generator().manual_seed(3)

        def drawn(*shape: int) -> torch.Tensor:
            values: torch.Tensor = torch.randn(*shape, generator=generator)
            return values / math.sqrt(shape[-1])

        weight, bias = drawn(sum(OUTS), IN), drawn(sum(OUTS))
        self.base = (
            kernels.in_int4(kernels.round_int4(weight, 128), bias)
            if layout == "int4"
            else kernels.pack_linear(weight, bias, **LAYOUTS[layout])
        )
        self.down = [[drawn(rank, IN) for rank in RANKS] for _ in range(SLOTS)]
        self.up = [
            [drawn(r, out) for r, out in zip(RANKS, OUTS, strict=True)] for _ in range(SLOTS)
        ]
        self.rows = RowAdapters()
        first, start, parts = 0, 0, []
        for i, (rank, out) in enumerate(zip(RANKS, OUTS, strict=True)):
            up = torch.cat([own[i] for own in self.up])
            parts.append(UpPart(first, first + rank, start, start + out, up))
            first, start = first + rank, start + out
        values = {f.name: getattr(self.base, f.name) for f in dataclasses.fields(LinearWeights)}
        down = torch.cat([torch.cat(own) for own in self.down])
        self.weights = AdaptedWeights(
            **values, down=down, parts=tuple(parts), columns=sum(RANKS), rows=self.rows
        )

    def expected(self, x: torch.Tensor, slots: list[int | None]) -> torch.Tensor:
        """x: [rows, in]."""
        y = kernels.linear(x, self.base).clone()
        for row, slot in enumerate(slots):
            if slot is not None:
                pairs = zip(self.down[slot], self.up[slot], strict=True)
                y[row] += torch.cat([x[row] @ down.T @ up for down, up in pairs])
        return y


def drawn_rows(count: int) -> torch.Tensor:
    return torch.randn(count, IN, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_row_gets_its_own(layout: str) -> None:
    pair, x = Pair(layout), drawn_rows(5)
    slots: list[int | None] = [1, None, 2, 1, None]
    whose = torch.zeros(5, 2)
    for row, slot in enumerate(slots):
        if slot is not None:
            whose[row, slot - 1] = 1.0
    pair.rows.set(1, 3, whose)
    torch.testing.assert_close(kernels.linear(x, pair.weights), pair.expected(x, slots))
    # Batches of queries have a mask for each text; activations come behind the change.
    pair.rows.set(1, 3, whose[:, None])
    wide = torch.stack([x, x + 1.0], dim=1)
    ours = kernels.linear(wide, pair.weights, "gelu")
    for query in range(2):
        theirs = torch.nn.functional.gelu(pair.expected(wide[:, query], slots))
        torch.testing.assert_close(ours[:, query], theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_behind_one_another_and_rows_of_one(layout: str) -> None:
    pair, x = Pair(layout), drawn_rows(9)
    pair.rows.set(0, 3, None, [Segment(0, 4, 2), Segment(6, 9, 0)])
    slots: list[int | None] = [2, 2, 2, 2, None, None, 0, 0, 0]
    torch.testing.assert_close(kernels.linear(x, pair.weights), pair.expected(x, slots))
    pair.rows.set(1, 2, None)
    torch.testing.assert_close(kernels.linear(x, pair.weights), pair.expected(x, [1] * 9))
    pair.rows.set(0, 0, None)
    assert torch.equal(kernels.linear(x, pair.weights), kernels.linear(x, pair.base))


def test_a_norm_in_front_and_a_gate_behind() -> None:
    pair, x = Pair("plain"), drawn_rows(4)
    norm = torch.rand(IN)
    pair.rows.set(0, 1, None)
    for change in (None, drawn_rows(4) * 0.5):
        y, left = kernels.norm_linear(x, change, norm, 1e-6, pair.weights, gated=True)
        before = x if change is None else x + change
        normed = kernels.rms_norm(before, norm, 1e-6)
        torch.testing.assert_close(left, before)
        torch.testing.assert_close(y, kernels.swiglu(pair.expected(normed, [0] * 4)))

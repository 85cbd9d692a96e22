"""Products with weights beside which low-rank changes stand (LoRA), one for each of some adapters.

    y = x W^T + b + (mask * (x D^T)) U

D [columns, in] and U [columns, out] hold all adapters one behind another, so a batch of several
costs two products whatever their number; the mask leaves each row its own adapter's columns. A row
of none gets zeros, which change nothing. Where an adapter has many rows, in prompts, they are
multiplied with its own columns alone. W may be in any layout, int8 included.

In torch alone, on a GPU too: batches with adapters are not captured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.activations import gelu_, swiglu
from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.linear import linear as plain_linear
from lookhear.kernels.linear import norm_linear as plain_norm_linear
from lookhear.kernels.norms import add_rms_norm, rms_norm

_APPROXIMATIONS: Mapping[str, str] = {"gelu": "none", "gelu_tanh": "tanh"}


class Segment(NamedTuple):
    """Rows [first, last) are of the adapter in that place."""

    first: int
    last: int
    adapter: int


class UpPart(NamedTuple):
    """Of one of the linears that a product is put together of. first, last: of each adapter's
    columns. start, stop: of the outputs. up: [adapters * (last - first), stop - start], scaled."""

    first: int
    last: int
    start: int
    stop: int
    up: Tensor


@dataclass(slots=True)
class RowAdapters:
    """Whose the rows of the next products are. first, last: adapters [first, last) take part; none
    if they are equal. whose: [..., last - first], 1 where a row is of that adapter, else 0, for the
    leading sizes of what is multiplied; None: all rows are of the only one. segments: instead,
    where an adapter has many rows, one behind another."""

    first: int = 0
    last: int = 0
    whose: Tensor | None = None
    segments: Sequence[Segment] = ()
    _masks: dict[tuple[int, torch.dtype], Tensor] = field(default_factory=dict)

    def set(
        self, first: int, last: int, whose: Tensor | None, segments: Sequence[Segment] = ()
    ) -> None:
        """Until the next call."""
        self.first, self.last, self.whose, self.segments = first, last, whose, segments
        self._masks.clear()

    def mask(self, columns: int, dtype: torch.dtype) -> Tensor | None:
        """[..., (last - first) * columns], of so many columns of each adapter."""
        if self.whose is None:
            return None
        found = self._masks.get((columns, dtype))
        if found is None:
            found = self.whose.to(dtype).repeat_interleave(columns, dim=-1)
            self._masks[columns, dtype] = found
        return found


@dataclass(frozen=True, slots=True)
class AdaptedWeights(LinearWeights):
    """down: [adapters * columns, in]. rows: shared by all weights of a model's part."""

    down: Any = None
    parts: tuple[UpPart, ...] = ()
    columns: int = 0
    rows: RowAdapters = field(default_factory=RowAdapters)

    def add_(self, y: Tensor, x: Tensor) -> None:
        """x: [..., in]; y: [..., out], the product, to which the changes are added."""
        rows = self.rows
        if not rows.segments:
            mask = rows.mask(self.columns, self.down.dtype)
            self._add_(y, x, rows.first, rows.last, mask)
            return
        for segment in rows.segments:
            part = slice(segment.first, segment.last)
            self._add_(y[part], x[part], segment.adapter, segment.adapter + 1, None)

    def _add_(self, y: Tensor, x: Tensor, first: int, last: int, mask: Tensor | None) -> None:
        size = self.columns
        low = F.linear(x.to(self.down.dtype), self.down[first * size : last * size])
        if mask is not None:
            low = low * mask
        each = low.view(*low.shape[:-1], last - first, size)
        for part in self.parts:
            rank = part.last - part.first
            own = low if rank == size else each[..., part.first : part.last].flatten(-2)
            up = part.up[first * rank : last * rank]
            outputs = y.view(-1, y.shape[-1])[:, part.start : part.stop]
            if y.dtype == up.dtype:  # in one go: outputs of many rows are read once
                outputs.addmm_(own.reshape(-1, own.shape[-1]), up)
            else:
                outputs += (own.reshape(-1, own.shape[-1]) @ up).to(y.dtype)


def linear(x: Tensor, weights: LinearWeights, activation: str = "none") -> Tensor:
    """See `kernels.linear.linear`."""
    if type(weights) is LinearWeights:
        return plain_linear(x, weights, activation)
    assert isinstance(weights, AdaptedWeights)
    if weights.rows.first == weights.rows.last:
        return plain_linear(x, weights, activation)
    y = plain_linear(x, weights)
    weights.add_(y, x)
    return y if activation == "none" else gelu_(y, _APPROXIMATIONS[activation])


def norm_linear(
    x: Tensor,
    change: Tensor | None,
    norm: Tensor,
    eps: float,
    weights: LinearWeights,
    *,
    gated: bool = False,
) -> tuple[Tensor, Tensor]:
    """See `kernels.linear.norm_linear`."""
    if type(weights) is LinearWeights:
        return plain_norm_linear(x, change, norm, eps, weights, gated=gated)
    if change is None:
        normed = rms_norm(x, norm, eps)
    else:
        normed, x = add_rms_norm(change, x, norm, eps)
    y = linear(normed, weights)
    return (swiglu(y) if gated else y), x

"""Weights of 4 bits: groups of inputs of an output share a scale, and what stands for zero.

    y = sum over groups of scale * (x W^T - zero * sum x) + b

Inputs are never rounded, and sums are in float32. Scales are in half the bits, zeros in 8 or, where
all are 8, nowhere: with groups of 128 a weight takes 4.125 bits.

The numbers are the torch version's, which multiplies out to float32: slow, for comparison. On a GPU
they are kernels of `triton.int4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

INT4: torch.dtype = torch.int4  # type: ignore[attr-defined]
GROUPS = (128, 64, 32)  # inputs, as many as fit
ZERO = 8  # of those that are signed
LEAST = 1e-7  # of float16, that is not zero
SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)  # of the furthest number, that are tried for its place


@dataclass(frozen=True, slots=True)
class Int4Weights:
    """numbers: [out, in / 2] uint8, each of two inputs: of a group's bytes the lower halves are its
    first inputs, the upper halves the others. scales: [groups, out]. zeros: [groups, out] uint8, or
    None: 8, everywhere."""

    numbers: Tensor
    scales: Tensor
    zeros: Tensor | None

    @property
    def group(self) -> int:
        """Inputs that share a scale."""
        return 2 * self.numbers.shape[1] // len(self.scales)

    def whole(self) -> Tensor:
        """[out, in] float32, what they stand for."""
        out, half = len(self.numbers), self.group // 2
        each = self.numbers.view(out, -1, half)
        values = torch.cat([each & 15, each >> 4], 2).float()
        zeros = ZERO if self.zeros is None else self.zeros.t()[:, :, None].float()
        return ((values - zeros) * self.scales.t()[:, :, None].float()).flatten(1)


def int4_group(in_features: int, stored: int | None = None) -> int | None:
    """Inputs that share a scale in a matrix of so many; None: it stays whole. stored: how many do
    where it is stored so, which ours have to divide."""
    least = stored or in_features
    return next((n for n in GROUPS if in_features % n == 0 and least % n == 0), None)


def round_int4(weight: Tensor, group: int) -> Int4Weights:
    """weight: [out, in]. Of a group the number that is furthest from zero becomes -8, so that all
    sixteen are used; or is cut off, where the others lose more by it. Scales are in the weight's
    dtype; of float32, too."""
    grouped = weight.float().view(len(weight), -1, group)  # [out, groups, group]
    furthest = grouped.gather(2, grouped.abs().argmax(2, keepdim=True))
    furthest = torch.where(furthest.abs() < LEAST * ZERO, LEAST * ZERO, furthest)
    best = least = torch.empty(0)
    for share in SHARES:
        scales = (furthest * (share / -ZERO)).to(weight.dtype)
        error = (_rounded(grouped, scales).mul_(scales).sub_(grouped)).square_().sum(2, True)
        if share == 1.0:
            best, least = scales, error
            continue
        best = torch.where(error < least, scales, best)
        least = torch.minimum(error, least)
    values = _rounded(grouped, best).add_(ZERO).to(torch.uint8)
    return pack_int4(values.flatten(1), best[:, :, 0], None)


def _rounded(grouped: Tensor, scales: Tensor) -> Tensor:
    """In float32, -8 to 7."""
    return (grouped / scales.float()).round_().clamp_(-ZERO, ZERO - 1)


def pack_int4(values: Tensor, scales: Tensor, zeros: Tensor | None) -> Int4Weights:
    """values: [out, in] uint8, 0 to 15. scales: [out, groups]. zeros: [out, groups] uint8."""
    first, last = values.reshape(*scales.shape, -1).chunk(2, dim=2)
    numbers = (first | last << 4).flatten(1)
    told = None if zeros is None else zeros.t().contiguous()
    return Int4Weights(numbers, scales.t().contiguous(), told)


def join_int4(parts: Sequence[Int4Weights]) -> Int4Weights:
    """One product instead of several over the same inputs."""
    if len(parts) == 1:
        return parts[0]
    assert len({part.group for part in parts}) == 1
    zeros: Tensor | None = None
    if any(part.zeros is not None for part in parts):
        each = [
            torch.full_like(part.scales, ZERO, dtype=torch.uint8)
            if part.zeros is None
            else part.zeros
            for part in parts
        ]
        zeros = torch.cat(each, 1)
    return Int4Weights(
        torch.cat([part.numbers for part in parts]),
        torch.cat([part.scales for part in parts], 1),
        zeros,
    )


def int4_product(x: Tensor, weights: Int4Weights, bias: Tensor | None) -> Tensor:
    """x: [rows, in]; bias: [out]. Returns [rows, out] in x's dtype."""
    exact = x.float() @ weights.whole().t()
    return (exact if bias is None else exact + bias).to(x.dtype)

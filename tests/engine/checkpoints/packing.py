"""Small packers of GPTQ's and AWQ's formats, number by number, written from what AutoGPTQ's and
AutoAWQ's modules save: which number stands in which bits of which word."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Drawn:
    """values: [out, in]. scales, zeros: [groups, out]. groups: [in]. whole: [out, in]."""

    values: Tensor
    scales: Tensor
    zeros: Tensor
    groups: Tensor
    whole: Tensor


def draw(
    out: int, inside: int, bits: int, size: int, *, shuffled: bool = False, symmetric: bool = False
) -> Drawn:
    """Random numbers of so many bits. shuffled: groups are no stretches."""
    chance = torch.Generator().manual_seed(out + inside + bits)
    values = torch.randint(0, 2**bits, (out, inside), generator=chance)
    groups = torch.arange(inside) // size
    if shuffled:
        groups = groups[torch.randperm(inside, generator=chance)]
    count = int(groups.max()) + 1
    zeros = torch.randint(1, 2**bits, (count, out), generator=chance)
    if symmetric:
        zeros = torch.full_like(zeros, 2 ** (bits - 1))
    scales = (torch.rand(count, out, generator=chance) + 0.5).half() / 2**bits
    whole = (values - zeros[groups].t()) * scales[groups].t().float()
    return Drawn(values, scales, zeros, groups, whole)


def pack(numbers: Tensor, bits: int, order: tuple[int, ...] | None = None) -> Tensor:
    """numbers: [rows, n]; of each row 32 / bits in a word, the lowest bits first. order: which of
    them stand there. Returns [rows, n / 32 * bits, rounded up] int32."""
    each = 32 // bits
    rows, count = numbers.shape
    words = [[0] * -(-count // each) for _ in range(rows)]
    for row in range(rows):
        for place in range(count):
            word, slot = divmod(place, each)
            column = place if order is None else word * each + order[slot]
            words[row][word] |= int(numbers[row, column]) << bits * slot
    signed = [[word - 2**32 if word >= 2**31 else word for word in row] for row in words]
    return torch.tensor(signed, dtype=torch.int64).to(torch.int32)


def gptq(drawn: Drawn, bits: int, *, less: int = 1, index: bool = True) -> dict[str, Tensor]:
    """less: by how much zeros are stored smaller, 1 before gptq_v2."""
    tensors = {
        "qweight": pack(drawn.values, bits).t().contiguous(),
        "qzeros": pack(drawn.zeros - less, bits),
        "scales": drawn.scales,
    }
    return tensors | ({"g_idx": drawn.groups.int()} if index else {})


def awq(drawn: Drawn) -> dict[str, Tensor]:
    return {
        "qweight": pack(drawn.values.t(), 4, AWQ_ORDER),
        "qzeros": pack(drawn.zeros, 4, AWQ_ORDER),
        "scales": drawn.scales,
    }

"""What a way of storing matrices in fewer bits has to say, and the tensors that stand beside them.

Everything here raises ValueError for tensors that do not belong together.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor


class Stored(Protocol):
    """Tensors by name, of which nothing is read before it is asked for."""

    @property
    def names(self) -> Collection[str]:
        """Of all tensors."""

    def path_of(self, name: str) -> Path:
        """The file that holds a tensor."""

    def shape(self, name: str) -> tuple[int, ...]:
        """By the file's header."""

    def read(self, name: str) -> Tensor:
        """A tensor as it is stored, on the CPU."""


@dataclass(frozen=True, slots=True)
class IntegerMatrix:
    """values: [out, in] uint8, 0 to 2^bits - 1. scales: [out, groups] floating-point. zeros: [out,
    groups] uint8, what stands for 0; None: 2^(bits - 1), everywhere. group_of: [in] int64, of each
    input; None: groups are stretches of `group_size` inputs."""

    values: Tensor
    scales: Tensor
    zeros: Tensor | None
    group_of: Tensor | None
    group_size: int
    bits: int

    def to(self, device: torch.device | str) -> IntegerMatrix:
        """There."""
        zeros = None if self.zeros is None else self.zeros.to(device)
        values, scales = self.values.to(device), self.scales.to(device)
        return replace(self, values=values, scales=scales, zeros=zeros)

    def whole(self) -> Tensor:
        """[out, in] float32, what it stands for."""
        exact = self.values.float()
        scales = self.scales.float()
        zeros = None if self.zeros is None else self.zeros.float()
        if zeros is None:
            exact -= 2 ** (self.bits - 1)
        if self.group_of is not None:
            if zeros is not None:
                exact -= zeros[:, self.group_of]
            return exact.mul_(scales[:, self.group_of])
        size = self.group_size
        for group, start in enumerate(range(0, exact.shape[1], size)):  # in place, nothing wide
            part = exact[:, start : start + size]
            if zeros is not None:
                part -= zeros[:, group, None]
            part *= scales[:, group, None]
        return exact

    def rows(self) -> tuple[Tensor, Tensor] | None:
        """[out, in] int8 and [out] float32, of which it is the product, if it has 8 bits and a
        scale for each output; None if not."""
        if self.bits != 8 or self.scales.shape[1] != 1 or self.zeros is not None:
            return None
        signed = (self.values ^ 0x80).view(torch.int8)  # less 128
        return signed, self.scales[:, 0].float()


class Layout(Protocol):
    """A way of storing matrices. `name` is always that of the tensor which holds one."""

    @property
    def mark(self) -> str:
        """What such names end with, instead of `.weight`."""

    @property
    def beside(self) -> tuple[str, ...]:
        """What the names end with of tensors that stand beside one."""

    def num_elements(self, name: str) -> int:
        """Of the matrix, by headers alone: at most one more than it has."""

    def read(self, name: str) -> Tensor:
        """[out, in], multiplied out."""

    def rows(self, name: str) -> tuple[Tensor, Tensor] | None:
        """[out, in] float8 or int8 and [out] float32, of which it is the product, if it is stored
        so; None if not."""

    def integers(self, name: str) -> IntegerMatrix | None:
        """It in fewer bits than 8, if they are integers; None if not."""


def found(stored: Stored, name: str, *shapes: tuple[int, ...], dtypes: str = "") -> Tensor:
    """The tensor of that name, which has one of the shapes; none: any. dtypes: what its type's name
    begins with."""
    if name not in stored.names:
        raise ValueError(f"expected a tensor {name} beside it, found none")
    tensor = stored.read(name)
    kind = str(tensor.dtype).removeprefix("torch.")
    if not kind.startswith(dtypes):
        raise ValueError(f"{name}: expected {dtypes}, got {kind}")
    if shapes and tuple(tensor.shape) not in shapes:
        expected = " or ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"{name}: expected shape {expected}, got {list(tensor.shape)}")
    return tensor

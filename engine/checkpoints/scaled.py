"""Matrices in float8 or int8 whose scales stand beside them.

    fp8                  weight in float8, weight_scale_inv of each block (fine-grained FP8)
    compressed-tensors   weight in float8 or int8, weight_scale of the tensor or of each output; and
                         weight_zero_point, if it is not symmetric

What is in neither is no such matrix, and stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.layout import IntegerMatrix, Stored

_SCALES = (".weight_scale_inv", ".weight_scale")
_ZEROS = ".weight_zero_point"
# Of activations, keys and values: here these are not rounded by them, so nothing is lost.
_UNUSED = (".input_scale", ".activation_scale", ".output_scale", ".k_scale", ".v_scale")
_STORED = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)


class Scaled:
    """See `Layout`."""

    mark = ".weight"
    beside = (*_SCALES, _ZEROS, *_UNUSED)

    def __init__(self, stored: Stored, settings: Mapping[str, Any]) -> None:
        self._stored = stored
        block = settings.get("weight_block_size") or [128, 128]
        self._block = (int(block[0]), int(block[1]))

    def num_elements(self, name: str) -> int:
        return math.prod(self._stored.shape(name))

    def integers(self, name: str) -> IntegerMatrix | None:
        return None

    def rows(self, name: str) -> tuple[Tensor, Tensor] | None:
        values = self._stored.read(name)
        if values.dtype not in _STORED or values.dim() != 2:
            return None
        scales = self._scales(name)
        if len(scales) != 1 or self._zeros(name) is not None:
            return None
        scale = self._stored.read(scales[0]).float()
        rows = len(values)
        if scale.numel() == 1:
            return values, scale.reshape(1).repeat(rows)
        return (values, scale.flatten()) if tuple(scale.shape) in ((rows,), (rows, 1)) else None

    def read(self, name: str) -> Tensor:
        tensor = self._stored.read(name)
        if tensor.dtype not in _STORED:
            return tensor
        scales = self._scales(name)
        if len(scales) != 1:
            raise ValueError(f"expected one scale beside it, got {len(scales)}")
        exact = tensor.float()
        if (zeros := self._zeros(name)) is not None:
            exact = exact - self._wide(zeros.float(), tensor, "zero point")
        return exact * self._wide(self._stored.read(scales[0]).float(), tensor, "scale")

    def _wide(self, each: Tensor, matrix: Tensor, what: str) -> Tensor:
        """For each number of the matrix, or what broadcasts to it."""
        if each.numel() == 1:
            return each.reshape(())
        rows, columns = matrix.shape
        if tuple(each.shape) in ((rows,), (rows, 1)):
            return each.view(rows, 1)
        down, across = self._block
        expected = (-(-rows // down), -(-columns // across))
        if tuple(each.shape) != expected:
            raise ValueError(
                f"expected a {what} of {[rows, 1]} or {list(expected)}, got {list(each.shape)}"
            )
        return each.repeat_interleave(down, 0)[:rows].repeat_interleave(across, 1)[:, :columns]

    def _zeros(self, name: str) -> Tensor | None:
        zeros = name.removesuffix(".weight") + _ZEROS
        return self._stored.read(zeros) if zeros in self._stored.names else None

    def _scales(self, name: str) -> list[str]:
        """Names of what should be one."""
        base = name.removesuffix(".weight")
        return [base + kind for kind in _SCALES if base + kind in self._stored.names]

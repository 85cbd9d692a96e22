"""Checkpoints whose matrices are stored in fewer bits: multiplied out as they are read, or, where
they are served in the same and each output has one scale, as they are; or refused with the list of
those that can be read.

    fp8                  weight in float8, weight_scale_inv of each block (fine-grained FP8)
    compressed-tensors   weight in float8 or int8, weight_scale of the tensor or of each output
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

log = logging.getLogger(__name__)

LOADS = "fp8 (fine-grained), compressed-tensors (float-quantized, int-quantized, naive-quantized)"
FORMATS = ("float-quantized", "int-quantized", "naive-quantized")
_SCALES = (".weight_scale_inv", ".weight_scale")
# Of activations: here these are not rounded, so nothing is lost without them.
_UNUSED = (".input_scale", ".activation_scale")
_STORED = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)


class Stored(Protocol):
    """See `TensorContainer`."""

    @property
    def names(self) -> Collection[str]:
        """Of all tensors."""

    def path_of(self, name: str) -> Path:
        """The file that holds a tensor."""

    def read(self, name: str) -> Tensor:
        """A tensor as it is stored, on the CPU."""


def refusal(config: Mapping[str, Any]) -> str | None:
    """Why a checkpoint that is quantised so cannot be read; None: it can, or is not quantised."""
    found = config.get("quantization_config")
    if found is None:
        return None
    if not isinstance(found, dict):
        return f"quantization_config: expected an object, got {found!r}"
    method = found.get("quant_method")
    if method == "fp8":
        return None
    if method == "compressed-tensors" and found.get("format") in FORMATS:
        return None
    form = f" ({found['format']})" if method == "compressed-tensors" else ""
    return (
        f"quantization_config: expected {LOADS}, which are multiplied out, or none; got "
        f"{method!r}{form}"
    )


class Quantised:
    """A container whose matrices have scales beside them. Raises ValueError for what does not
    belong together."""

    def __init__(self, stored: Stored, config: Mapping[str, Any]) -> None:
        self._stored = stored
        settings = config["quantization_config"]
        block = settings.get("weight_block_size") or [128, 128]
        self._block = (int(block[0]), int(block[1]))
        self._method = settings["quant_method"]
        beside = (*_SCALES, *_UNUSED)
        self._names = [name for name in stored.names if not name.endswith(beside)]
        log.info("weights are stored in %s", self._method)

    @property
    def names(self) -> Collection[str]:
        """Of all tensors but the scales."""
        return self._names

    def path_of(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._stored.path_of(name)

    def as_stored(self, name: str) -> Tensor:
        """A tensor, not multiplied out."""
        return self._stored.read(name)

    def row_scales(self, name: str, values: Tensor) -> Tensor | None:
        """[rows] float32, of a matrix as it is stored; None: it is in none of these, or has scales
        of another kind."""
        if values.dtype not in _STORED or values.dim() != 2:
            return None
        scales = self._scales(name)
        if len(scales) != 1:
            return None
        scale = self._stored.read(scales[0]).float()
        rows = len(values)
        if scale.numel() == 1:
            return scale.reshape(1).repeat(rows)
        return scale.flatten() if tuple(scale.shape) in ((rows,), (rows, 1)) else None

    def read(self, name: str) -> Tensor:
        """A tensor, multiplied out."""
        tensor = self._stored.read(name)
        if tensor.dtype not in _STORED:
            return tensor
        scales = self._scales(name)
        if len(scales) != 1:
            raise ValueError(f"expected one scale beside it, got {len(scales)}")
        scale = self._stored.read(scales[0]).float()
        if scale.numel() == 1:
            return tensor.float() * scale.reshape(())
        rows, columns = tensor.shape
        if tuple(scale.shape) in ((rows,), (rows, 1)):
            return tensor.float() * scale.view(rows, 1)
        down, across = self._block
        expected = (-(-rows // down), -(-columns // across))
        if tuple(scale.shape) != expected:
            raise ValueError(
                f"expected a scale of {[rows, 1]} or {list(expected)}, got {list(scale.shape)}"
            )
        wide = scale.repeat_interleave(down, 0)[:rows].repeat_interleave(across, 1)[:, :columns]
        return tensor.float() * wide

    def _scales(self, name: str) -> list[str]:
        """Names of what should be one."""
        base = name.removesuffix(".weight")
        return [base + kind for kind in _SCALES if base + kind in self._stored.names]

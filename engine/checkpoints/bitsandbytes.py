"""Matrices as bitsandbytes stores them.

    4 bits (nf4, fp4)    weight, two numbers in a byte, the first in the upper half: places in
                         weight.quant_map [16]; weight.absmax, by which a block of them is
                         multiplied; weight.quant_state.bitsandbytes__*: JSON, with shape and block.
                         Doubly quantised, absmax holds places in weight.nested_quant_map [256], to
                         be multiplied by weight.nested_absmax, plus an offset
    8 bits               weight [out, in] int8; SCB [out], what 127 stands for

What has none of these beside it was not converted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor

from lookhear.engine.checkpoints.layout import IntegerMatrix, Stored, found

LARGEST = 127
_STATES = (".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4")
_MAPS = (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map")


class BitsAndBytes:
    """See `Layout`."""

    mark = ".weight"
    beside = (*(f".weight{kind}" for kind in (*_STATES, *_MAPS)), ".SCB", ".weight_format")

    def __init__(self, stored: Stored, settings: Mapping[str, Any]) -> None:
        self._stored = stored

    def num_elements(self, name: str) -> int:
        state = self._state(name)
        return math.prod(self._stored.shape(name) if state is None else self._about(state)[0])

    def integers(self, name: str) -> IntegerMatrix | None:
        return None  # 4 bits are no integers but places in a table

    def rows(self, name: str) -> tuple[Tensor, Tensor] | None:
        scales = name.removesuffix(self.mark) + ".SCB"
        if scales not in self._stored.names:
            return None
        values = found(self._stored, name, dtypes="int8")
        form = name.removesuffix(self.mark) + ".weight_format"
        if form in self._stored.names and (kind := int(self._stored.read(form))) != 0:
            raise ValueError(f"{form}: expected 0, rows one behind another, got {kind}")
        greatest = found(self._stored, scales, (len(values),), dtypes="float")
        return values, greatest.float() / LARGEST

    def read(self, name: str) -> Tensor:
        if (state := self._state(name)) is not None:
            return self._from_table(name, state)
        if (rows := self.rows(name)) is not None:
            return rows[0].float() * rows[1][:, None]
        return self._stored.read(name)

    def _state(self, name: str) -> str | None:
        return next((name + state for state in _STATES if name + state in self._stored.names), None)

    def _from_table(self, name: str, state: str) -> Tensor:
        shape, block, about = self._about(state)
        count = math.prod(shape)
        each = self._stored.read(name).contiguous().view(torch.uint8).flatten()
        if len(each) != -(-count // 2):
            raise ValueError(f"expected {-(-count // 2)} bytes for shape {shape}, got {len(each)}")
        table = found(self._stored, f"{name}.quant_map", (16,), dtypes="float").float()
        places = torch.stack([each >> 4, each & 15], -1).flatten()[:count]
        largest = self._largest(name, about, -(-count // block))
        values = table[places.int()]
        scales = largest.repeat_interleave(block)[:count]
        return values.mul_(scales).view(shape)

    def _about(self, state: str) -> tuple[list[int], int, dict[str, Any]]:
        """Shape, numbers of a block, and all of a matrix's quantisation state."""
        about = _object(state, found(self._stored, state, dtypes="uint8"))
        shape, block = about.get("shape"), about.get("blocksize")
        if not (isinstance(shape, list) and shape and all(_is_count(n) for n in shape)):
            raise ValueError(f"{state}: shape: expected numbers >= 1, got {shape!r}")
        if not _is_count(block):
            raise ValueError(f"{state}: blocksize: expected a number >= 1, got {block!r}")
        return shape, block, about

    def _largest(self, name: str, about: Mapping[str, Any], blocks: int) -> Tensor:
        """[blocks] float32."""
        stored = found(self._stored, f"{name}.absmax", (blocks,))
        if stored.is_floating_point():
            return stored.float()
        table = found(self._stored, f"{name}.nested_quant_map", (256,), dtypes="float")
        size, offset = about.get("nested_blocksize"), about.get("nested_offset")
        if not _is_count(size) or not isinstance(offset, int | float):
            expected = "nested_blocksize >= 1 and a number nested_offset"
            raise ValueError(f"{name}.absmax: expected {expected}, got {size!r}, {offset!r}")
        outer = found(self._stored, f"{name}.nested_absmax", (-(-blocks // size),), dtypes="float")
        scales = outer.float().repeat_interleave(size)[:blocks]
        return table.float()[stored.int()] * scales + offset


def _is_count(number: object) -> TypeGuard[int]:
    return type(number) is int and number >= 1


def _object(name: str, content: Tensor) -> dict[str, Any]:
    """The JSON in a tensor of bytes."""
    try:
        value = json.loads(bytes(content.tolist()).decode())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{name}: expected JSON, got {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected a JSON object, got {type(value).__name__}")
    return value

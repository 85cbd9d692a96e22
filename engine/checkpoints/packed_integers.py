"""Matrices of integers of 2, 4 or 8 bits, several in a word of 32, with scales of groups of inputs.

    gptq              qweight [in / n, out], n inputs in a word; scales [groups, out]; qzeros
                      [groups, out / n], one less than they stand for, but in gptq_v2; g_idx [in]
    awq (gemm)        qweight [in, out / 8], eight outputs in a word, in the order 0 2 4 6 1 3 5 7;
                      scales [groups, out]; qzeros [groups, out / 8] in the same order
    compressed-tensors (pack-quantized)
                      weight_packed [out, in / n]; weight_scale [out, groups]; weight_zero_point
                      [out / n, groups], if it is not symmetric; weight_g_idx [in], if inputs were
                      put in another order; weight_shape [2]

The lowest bits of a word come first. Formats as AutoGPTQ and GPTQModel, AutoAWQ, and
compressed-tensors write them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.layout import IntegerMatrix, Stored, found
from lookhear.engine.config.quantisation import BITS, gptq_form

WORD = 32
AWQ_BITS = 4
# Where in a word of AWQ's output 0 is, output 1 and so on.
_AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


def unpacked(words: Tensor, bits: int) -> Tensor:
    """words: [..., n] int32. Returns [..., n * 32 / bits] uint8."""
    each = words.contiguous().view(torch.uint8)
    if bits == 8:
        return each
    parts = [each >> shift & 2**bits - 1 for shift in range(0, 8, bits)]
    return torch.stack(parts, -1).flatten(-2)


class _PackedIntegers:
    """What the three have in common."""

    mark = ""

    def __init__(self, stored: Stored, settings: Mapping[str, Any]) -> None:
        self._stored = stored
        self._settings = settings

    def num_elements(self, name: str) -> int:
        raise NotImplementedError

    def matrix(self, name: str) -> IntegerMatrix:
        """It, and all that stands beside it."""
        raise NotImplementedError

    def read(self, name: str) -> Tensor:
        return self.matrix(name).whole()

    def rows(self, name: str) -> tuple[Tensor, Tensor] | None:
        return self.matrix(name).rows()

    def integers(self, name: str) -> IntegerMatrix | None:
        matrix = self.matrix(name)
        return matrix if matrix.bits < 8 else None

    def _axes(self, name: str) -> tuple[int, int]:
        """By the header."""
        if name not in self._stored.names:
            raise ValueError(f"expected a tensor {name} beside it, found none")
        shape = self._stored.shape(name)
        if len(shape) != 2:
            raise ValueError(f"{name}: expected two axes, got {list(shape)}")
        return shape[0], shape[1]

    def _group_of(self, name: str, inside: int, groups: int, size: int) -> Tensor | None:
        """Which group each input is of, by the tensor of that name; None if groups are stretches of
        so many inputs."""
        if name not in self._stored.names:
            return None
        index = found(self._stored, name, (inside,), dtypes="int").long()
        least, most = int(index.min()), int(index.max())
        if least < 0 or most >= groups:
            raise ValueError(f"{name}: expected groups 0 to {groups - 1}, got {least} to {most}")
        is_plain = bool((index == torch.arange(inside) // size).all())
        return None if is_plain else index


class Gptq(_PackedIntegers):
    """See `Layout`."""

    mark = ".qweight"
    beside = (".qzeros", ".scales", ".g_idx")

    def num_elements(self, name: str) -> int:
        return math.prod(self._stored.shape(name)) * WORD // self._bits(name)

    def matrix(self, name: str) -> IntegerMatrix:
        base = name.removesuffix(self.mark)
        bits = self._bits(name)
        down, out = self._axes(name)
        words = found(self._stored, name, dtypes="int32")
        inside = self._inside(f"{base}.g_idx", down * WORD // bits, WORD // bits)
        size = _group_size(self._settings, inside)
        groups = self._axes(f"{base}.scales")[0]
        if self._settings.get("dynamic") and groups != -(-inside // size):
            size = -(-inside // max(groups, 1))
        scales = found(self._stored, f"{base}.scales")
        index = self._group_of(f"{base}.g_idx", inside, groups, size)
        if index is None and groups != -(-inside // size):
            raise ValueError(
                f"{base}.scales: expected {-(-inside // size)} groups of {size}, got {groups}"
            )
        if tuple(scales.shape) != (groups, out):
            raise ValueError(
                f"{base}.scales: expected shape {[groups, out]}, got {list(scales.shape)}"
            )
        columns = -(-out * bits // WORD)
        zeros = found(self._stored, f"{base}.qzeros", (groups, columns), dtypes="int32")
        if gptq_form(self._settings) == "gptq":  # 1 in every number of a word
            zeros = zeros + 2**WORD // (2**bits - 1)
        return IntegerMatrix(
            values=unpacked(words.t(), bits)[:, :inside],
            scales=scales.t(),
            zeros=_telling(unpacked(zeros, bits)[:, :out].t(), bits),
            group_of=index,
            group_size=size,
            bits=bits,
        )

    def _inside(self, index: str, most: int, word: int) -> int:
        """Inputs: what their words hold, if the last of these is full."""
        if index not in self._stored.names:
            return most
        count = math.prod(self._stored.shape(index))
        return count if most - word < count < most else most

    def _bits(self, name: str) -> int:
        """By what stands beside it, for modules may differ (`dynamic`)."""
        base, out = name.removesuffix(self.mark), self._axes(name)[1]
        columns, told = self._axes(f"{base}.qzeros")[1], self._settings["bits"]
        if columns == -(-out * told // WORD):
            return int(told)
        bits = next((bits for bits in BITS if columns == -(-out * bits // WORD)), None)
        if bits is None or not self._settings.get("dynamic"):
            raise ValueError(
                f"{base}.qzeros: expected {-(-out * told // WORD)} columns for {told} bits and "
                f"{out} outputs, got {columns}"
            )
        return bits


class Awq(_PackedIntegers):
    """See `Layout`."""

    mark = ".qweight"
    beside = (".qzeros", ".scales")

    def num_elements(self, name: str) -> int:
        return math.prod(self._stored.shape(name)) * WORD // AWQ_BITS

    def matrix(self, name: str) -> IntegerMatrix:
        base = name.removesuffix(self.mark)
        inside, columns = self._axes(name)
        words = found(self._stored, name, dtypes="int32")
        out = columns * WORD // AWQ_BITS
        size = _group_size(self._settings, inside)
        groups = -(-inside // size)
        scales = found(self._stored, f"{base}.scales", (groups, out))
        zeros = found(self._stored, f"{base}.qzeros", (groups, columns), dtypes="int32")
        return IntegerMatrix(
            values=_in_order(words).t().contiguous(),
            scales=scales.t(),
            zeros=_telling(_in_order(zeros).t(), AWQ_BITS),
            group_of=None,
            group_size=size,
            bits=AWQ_BITS,
        )


def _telling(zeros: Tensor, bits: int) -> Tensor | None:
    """None if they are those of an `IntegerMatrix` without them."""
    return None if bool((zeros == 2 ** (bits - 1)).all()) else zeros


def _in_order(words: Tensor) -> Tensor:
    """[n, out / 8] int32 of AWQ -> [n, out] uint8."""
    each = unpacked(words, AWQ_BITS).view(len(words), -1, len(_AWQ_PLACES))
    return each[..., _AWQ_PLACES].flatten(1)


class PackQuantized(_PackedIntegers):
    """See `Layout`."""

    mark = ".weight_packed"
    beside = (".weight_scale", ".weight_zero_point", ".weight_g_idx", ".weight_shape")

    def num_elements(self, name: str) -> int:
        return math.prod(self._shape(name))

    def matrix(self, name: str) -> IntegerMatrix:
        base = name.removesuffix(self.mark)
        out, inside = self._shape(name)
        columns = self._axes(name)[1]
        bits = next((bits for bits in BITS if columns == -(-inside * bits // WORD)), None)
        if bits is None:
            counts = " or ".join(f"{-(-inside * bits // WORD)} ({bits} bits)" for bits in BITS)
            raise ValueError(f"{name}: expected {counts} columns, got {columns}")
        words = found(self._stored, name, (out, columns), dtypes="int32")
        scales = found(self._stored, f"{base}.weight_scale")
        if scales.numel() == 1 or tuple(scales.shape) == (out,):
            scales = scales.reshape(-1, 1).expand(out, 1)
        if scales.dim() != 2 or len(scales) != out or inside % scales.shape[1]:
            expected = f"[{out}, a divisor of {inside}]"
            raise ValueError(
                f"{base}.weight_scale: expected shape {expected}, got {list(scales.shape)}"
            )
        groups = scales.shape[1]
        return IntegerMatrix(
            values=unpacked(words, bits)[:, :inside],
            scales=scales,
            zeros=self._zeros(base, out, groups, bits),
            group_of=self._group_of(f"{base}.weight_g_idx", inside, groups, inside // groups),
            group_size=inside // groups,
            bits=bits,
        )

    def _shape(self, name: str) -> tuple[int, int]:
        of = name.removesuffix(self.mark) + ".weight_shape"
        out, inside = found(self._stored, of, (2,), dtypes="int").tolist()
        if out < 1 or inside < 1:
            raise ValueError(f"{of}: expected two numbers >= 1, got {[out, inside]}")
        return out, inside

    def _zeros(self, base: str, out: int, groups: int, bits: int) -> Tensor | None:
        """[out, groups] uint8, as weights are: a signed number's 0 is 2^(bits - 1)."""
        name = f"{base}.weight_zero_point"
        if name not in self._stored.names:
            if self._is_asymmetric():
                raise ValueError(f"expected a tensor {name} beside it, found none")
            return None
        if self._stored.read(name).dtype == torch.int8:  # not packed, as older versions wrote them
            zeros = found(self._stored, name, (out, groups), *([(out,)] if groups == 1 else []))
            middle = 1 << bits - 1
            return (zeros.reshape(out, groups).int() + middle).to(torch.uint8)
        words = found(self._stored, name, (-(-out * bits // WORD), groups), dtypes="int32")
        zeros = unpacked(words.t(), bits)[:, :out]
        return zeros.t()

    def _is_asymmetric(self) -> bool:
        """Whether all that is quantised has zero points."""
        kinds = self._settings.get("config_groups")
        each = kinds.values() if isinstance(kinds, dict) else ()
        weights = [kind.get("weights") for kind in each if isinstance(kind, dict)]
        known = [kind for kind in weights if isinstance(kind, dict)]
        return bool(known) and all(kind.get("symmetric") is False for kind in known)


def _group_size(settings: Mapping[str, Any], inside: int) -> int:
    """Inputs that share a scale; -1, or more than there are: all."""
    size = settings.get("group_size", 128)
    return min(size, inside) if size > 0 else inside

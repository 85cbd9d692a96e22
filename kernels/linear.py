"""Matrix products with fixed weights, laid out once for the machine they run on.

On a CPU there are four layouts:

- plain: torch's default path. Best for small matrices, whose cost is the call.
- packed: oneDNN's own layout. Reads a large matrix 2 to 3 times faster than the default path, in
  true float32 or bfloat16. One call costs about 20 us more.
- half: FBGEMM's, weights in float16 under float32 inputs and sums. For decoding, where a few rows
  wait for the weights to come from memory: 1.7 times faster than packed bfloat16 (which reads as
  many bytes), and more exact. A row's result does not depend on how many others there are.
- int8: FBGEMM's too, weights and activations in 8 bits (`kernels.cpu.int8`); less exact. With AVX2
  alone twice as fast as packed float32 for many rows; for few, twice as fast as half where the
  matrix is so large that it has to come from memory, and no faster where it is not.

bfloat16 weights can have a half copy beside the packed one, for one or two rows: twice the
memory, half the time of a decode step.

On a GPU weights lie as they were read; or in float8 (`kernels.fp8`) or int8 with a scale for each
output, or in 4 bits with scales of groups (`kernels.int4`). With int8 and 4 bits, inputs are never
rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.activations import gelu_, swiglu
from lookhear.kernels.choice import has_triton
from lookhear.kernels.cpu.int8 import int8_product, pack_int8
from lookhear.kernels.fp8 import FEW_ROWS as FEW_FP8_ROWS
from lookhear.kernels.fp8 import FP8, scaled_product
from lookhear.kernels.int4.weights import Int4Weights, int4_product
from lookhear.kernels.norms import add_rms_norm, rms_norm

PACK_FROM = 400_000  # float32 weights from this many elements on are packed; measured
HALF_FROM = 100_000  # the same for half, where it is asked for
# And for int8: where rows are many, and where they may be as few as one.
INT8_FROM, INT8_FEW_FROM = 100_000, 2_000_000
# The layout is chosen for about this many rows of input. Up to that, it is the best one measured;
# and at 1500 rows no other layout is faster.
PACK_ROWS = 16
# Small matrices that are packed for many rows are kept plain beside that, for up to so many: then
# the call is the cost. Width 208, one row: 7 us instead of 19; the layouts meet at 8 rows.
FEW_ROWS = 4
# Up to so many rows a half copy is 2 to 2.5 times as fast as packed bfloat16; at 3 they are equal.
HALF_ROWS = 2


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """weight: [out, in], in oneDNN's layout if packed, empty if half, int8 or int4. bias: [out] or
    None. half: FBGEMM's object, bias included; beside packed bfloat16 for few rows only. plain:
    [out, in] for few rows, if packed and small. int8: of `pack_int8`. scales: [out] float32, of a
    weight in float8 or int8. Never written."""

    weight: Tensor
    bias: Tensor | None
    packed: bool
    out_features: int
    in_features: int
    half: Any = None
    plain: Tensor | None = None
    int8: Any = None
    scales: Tensor | None = None
    int4: Int4Weights | None = None


def default_cpu_dtype() -> torch.dtype:
    """bfloat16 where this CPU multiplies it in hardware and this torch uses that, else float32.

    Half the bytes per decoded token and twice the products per second; a CPU without the
    instructions would emulate them, slower than float32.
    """
    capabilities = torch.cpu.get_capabilities()
    native = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))
    if native and _packed(torch.zeros(16, 16, dtype=torch.bfloat16)) is not None:
        return torch.bfloat16
    return torch.float32


def supports_half_weights() -> bool:
    """Whether `pack_linear(half=True)` finds what it needs: this torch on an x86 CPU."""
    return _half(torch.zeros(1, 1), None) is not None


def supports_int8_weights() -> bool:
    """Whether `pack_linear(int8=True)` finds what it needs: this torch on an x86 CPU."""
    return pack_int8(torch.zeros(1, 1)) is not None


def pack_linear(
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    pack: bool | None = None,
    half: bool = False,
    int8: bool = False,
    scales: Tensor | None = None,
) -> LinearWeights:
    """Prepares weights for `linear`. pack: None decides by device, dtype and size.

    half: weights that are large enough may be kept in float16, instead of float32 or beside
    bfloat16; see the module. int8: the same for int8, of weights in float32, in preference to
    half; of smaller ones too with pack=True, which says that there will be many rows. scales: of a
    weight in float8 or int8, which stays as it is.
    """
    out_features, in_features = weight.shape
    if scales is not None:
        return LinearWeights(weight, bias, False, out_features, in_features, scales=scales)
    least = INT8_FROM if pack else INT8_FEW_FROM
    rounded = pack_int8(weight) if int8 and weight.numel() >= least else None
    if rounded is not None:
        return LinearWeights(
            weight.new_empty(0), bias, False, out_features, in_features, int8=rounded
        )
    prepared = _half(weight, bias) if half and weight.numel() >= HALF_FROM else None
    if prepared is not None and weight.dtype == torch.float32:
        return LinearWeights(weight.new_empty(0), None, False, out_features, in_features, prepared)
    if pack is None:
        pack = weight.numel() >= (PACK_FROM if weight.dtype == torch.float32 else 1)
    packed = _packed(weight) if pack else None
    is_small = weight.dtype == torch.float32 and weight.numel() < PACK_FROM
    return LinearWeights(
        weight=weight.contiguous() if packed is None else packed,
        bias=None if bias is None else bias.contiguous(),
        packed=packed is not None,
        out_features=out_features,
        in_features=in_features,
        half=prepared if packed is not None else None,
        plain=weight.contiguous() if packed is not None and is_small else None,
    )


def in_int4(weights: Int4Weights, bias: Tensor | None = None) -> LinearWeights:
    """For `linear`."""
    out_features, half = weights.numbers.shape
    empty = weights.scales.new_empty(0)
    return LinearWeights(empty, bias, False, out_features, 2 * half, int4=weights)


def pack_conv(weight: Tensor, *, channels_last: bool | None = None) -> Tensor:
    """Weights of `conv2d`, [out, in, height, width], in the layout for their device: on a GPU the
    channels last, as tensor cores take them. The output is laid out so too, whatever the input;
    from the other layout cuDNN turns input, weights and output around in every call."""
    if channels_last is None:
        channels_last = weight.is_cuda
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return weight.contiguous(memory_format=layout)


@has_triton
def linear(x: Tensor, weights: LinearWeights, activation: str = "none") -> Tensor:
    """x W^T + b, then nothing ("none"), the exact GELU ("gelu") or its approximation by a
    hyperbolic tangent ("gelu_tanh").

    x: [..., in] in the weights' dtype, float32 for half alone and for int8. Returns [..., out] in
    x's dtype.
    """
    kind, approximation = _ACTIVATIONS[activation]
    y: Tensor
    rows = x.numel() // x.shape[-1]
    if weights.packed and (
        rows > HALF_ROWS if weights.half is not None else weights.plain is None or rows > FEW_ROWS
    ):
        flat = x.reshape(rows, weights.in_features)
        if (more := padded_rows(rows)) != rows:
            flat = F.pad(flat, (0, 0, 0, more - rows))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            flat, weights.weight, weights.bias, kind, [], approximation
        )
        return out[:rows].view(*x.shape[:-1], weights.out_features)
    if weights.scales is not None:
        is_fp8 = weights.weight.dtype == FP8
        y = in_8_bits(x, weights, rounds=is_fp8 and rows > FEW_FP8_ROWS)
    elif weights.int4 is not None:
        y = int4_product(x.reshape(rows, weights.in_features), weights.int4, weights.bias)
        y = y.view(*x.shape[:-1], weights.out_features)
    elif weights.int8 is not None:
        y = int8_product(x.reshape(rows, weights.in_features), weights.int8)
        if weights.bias is not None:
            y.add_(weights.bias)
        y = y.view(*x.shape[:-1], weights.out_features)
    elif weights.half is not None:
        y = torch.ops.quantized.linear_dynamic_fp16(x.float(), weights.half).to(x.dtype)
    else:
        plain = weights.weight if weights.plain is None else weights.plain
        y = F.linear(x, plain, weights.bias)
    return gelu_(y, approximation) if kind == "gelu" else y


def in_8_bits(x: Tensor, weights: LinearWeights, *, rounds: bool) -> Tensor:
    """x W^T + b of weights in float8 or int8. rounds: see `kernels.fp8.scaled_product`."""
    assert weights.scales is not None
    flat = x.reshape(x.numel() // x.shape[-1], weights.in_features)
    y = scaled_product(flat, weights.weight, weights.scales, weights.bias, rounds=rounds)
    return y.view(*x.shape[:-1], weights.out_features)


def padded_rows(rows: int) -> int:
    """As many or a few more, at most an eighth: oneDNN compiles a product for every number of rows
    that it meets, for a millisecond and half a megabyte, and the sound of several people has all
    numbers."""
    if rows <= PACK_ROWS:
        return rows
    step = max(4, 1 << rows.bit_length() - 5)
    return -(-rows // step) * step


@has_triton
def norm_linear(
    x: Tensor,
    change: Tensor | None,
    norm: Tensor,
    eps: float,
    weights: LinearWeights,
    *,
    gated: bool = False,
) -> tuple[Tensor, Tensor]:
    """linear(rms_norm(x + change)), and x + change, which the residual stream goes on with.

    x: [tokens, width]; change: the same, what the layer before adds to it, None for nothing; norm:
    [width] of `rms_norm`; weights: [out, width]. gated: `swiglu` of the product, half as wide.
    Returns ([tokens, out or out / 2], [tokens, width]).
    """
    if change is None:
        normed = rms_norm(x, norm, eps)
    else:
        normed, x = add_rms_norm(change, x, norm, eps)
    y = linear(normed, weights)
    return (swiglu(y) if gated else y), x


# What they are called where a product and what follows it are one operation.
_ACTIVATIONS = {"none": ("none", "none"), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh")}


def _half(weight: Tensor, bias: Tensor | None) -> Any:
    """FBGEMM's float16 layout, or None where this torch, CPU or dtype cannot do it."""
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        return None
    wide = weight.float().contiguous()
    try:
        added = None if bias is None else bias.float()
        prepared = torch.ops.quantized.linear_prepack_fp16(wide, added)
        torch.ops.quantized.linear_dynamic_fp16(wide.new_zeros(1, wide.shape[1]), prepared)
    except (AttributeError, RuntimeError):
        return None
    return prepared


def _packed(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's layout, or None where this torch, CPU or dtype cannot do it."""
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACK_ROWS)
        probe = torch.zeros(1, weight.shape[1], dtype=weight.dtype)
        torch.ops.mkldnn._linear_pointwise(probe, packed, None, "gelu", [], "none")
    except (AttributeError, RuntimeError):  # private operators: absent or changed in another torch
        return None
    return packed

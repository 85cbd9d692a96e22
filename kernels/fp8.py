"""Products of weights in float8 (e4m3: 4 bits of exponent, 3 of mantissa), for GPUs that have it.

    few rows:   y = (x W^T) * scales                      x as it is: what counts is W's bytes
    many rows:  y = (x8 W^T) * row_scales * scales        x8 = x / row_scales, rounded to float8

W: [out, in] float8 with a float32 scale for each output, found once; activations have one for each
row, found in every product, so what a row gives does not depend on the rows beside it. The greatest
number of a row becomes the greatest of float8, 448. Sums are in float32.

Weights in int8, for GPUs before those, have the formula of few rows always.

The numbers are the torch version's, which multiplies out to float32: slow, for comparison. On a GPU
few rows are a kernel of `triton.linear`, many the library's `_scaled_mm`, or of int8
`triton.weights_in_8_bits`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.norms import add_rms_norm, rms_norm

FP8 = torch.float8_e4m3fn
LARGEST = 448.0
LEAST = 1e-30  # a row of zeros is divided by it
FEW_ROWS = 4  # up to so many, activations are not rounded; a card's table may say otherwise
CAPABILITY = (8, 9)  # the least that multiplies float8: Ada; then Hopper, Blackwell
INT8_CAPABILITY = (8, 0)  # bfloat16 on tensor cores
INT8_LARGEST = 127
STEP = 16  # the library takes sizes that are multiples of it


def fp8_refusal(device: torch.device | str) -> str | None:
    """Why products in float8 are not for a device; None: they are."""
    return _refusal(device, CAPABILITY, "Ada, Hopper, later")


def int8_refusal(device: torch.device | str) -> str | None:
    """The same of weights in int8 that meet bfloat16."""
    return _refusal(device, INT8_CAPABILITY, "Ampere, later")


def _refusal(device: torch.device | str, needed: tuple[int, int], names: str) -> str | None:
    least = ".".join(map(str, needed))
    expected = f"expected a GPU of compute capability {least} or more ({names})"
    if torch.device(device).type != "cuda":
        return f"{expected}, the device is {str(device)!r}"
    if torch.version.cuda is None:  # another float8 there, and nothing was tried
        return f"{expected}, got a torch without CUDA"
    found = torch.cuda.get_device_capability(device)
    if found < needed:
        number = ".".join(map(str, found))
        return f"{expected}, {torch.cuda.get_device_name(device)} has {number}"
    return None


def fits_fp8(out_features: int, in_features: int) -> bool:
    """Whether a matrix can be multiplied in float8."""
    return out_features % STEP == 0 and in_features % STEP == 0


@has_triton
def round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x: [rows, width]. Returns float8 [rows, width] and float32 scales [rows], of which x is about
    the product; of weights, too. A row with a NaN or an infinity becomes NaN, alone."""
    exact = x.float()
    scales = exact.abs().amax(dim=1).clamp(min=LEAST * LARGEST) / LARGEST
    return (exact / scales[:, None]).to(FP8), scales


def round_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight: [out, in]. Returns int8 [out, in] and float32 scales [out], of which it is about the
    product."""
    exact = weight.float()
    scales = exact.abs().amax(dim=1).clamp(min=LEAST) / INT8_LARGEST
    return (exact / scales[:, None]).round_().to(torch.int8), scales


@has_triton
def norm_round_rows(
    x: Tensor, change: Tensor | None, norm: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`round_rows` of rms_norm(x + change), and x + change. x, change: [rows, width]; change: None
    for nothing; norm: [width]."""
    if change is None:
        normed = rms_norm(x, norm, eps)
    else:
        normed, x = add_rms_norm(change, x, norm, eps)
    return *round_rows(normed), x


def rounded_product(
    values: Tensor, row_scales: Tensor, weight: Tensor, scales: Tensor, dtype: torch.dtype
) -> Tensor:
    """values: [rows, in] float8, row_scales: [rows] of `round_rows`; weight: [out, in] float8,
    scales: [out]. Returns [rows, out] in dtype: of a card, bfloat16."""
    if values.is_cuda and len(values) > 0:
        y: Tensor = torch._scaled_mm(
            values,
            weight.t(),
            scale_a=row_scales[:, None],
            scale_b=scales[None, :],
            out_dtype=torch.bfloat16,
        )
        return y.to(dtype)
    return ((values.float() @ weight.float().t()) * row_scales[:, None] * scales).to(dtype)


def scaled_product(
    x: Tensor, weight: Tensor, scales: Tensor, bias: Tensor | None, *, rounds: bool
) -> Tensor:
    """x: [rows, in]; weight: [out, in] float8 or int8; scales: [out]; bias: [out]. rounds: as for
    many rows, of float8. Returns [rows, out] in x's dtype."""
    if rounds:
        y = rounded_product(*round_rows(x), weight, scales, x.dtype)
        return y if bias is None else y.add_(bias)
    exact = (x.float() @ weight.float().t()) * scales
    return (exact if bias is None else exact + bias).to(x.dtype)

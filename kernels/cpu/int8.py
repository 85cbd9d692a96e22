"""Products of weights in int8 with activations that are rounded to int8 row by row, on an x86 CPU.

Weights have a scale for each output, found once; activations one for each row, found in every
product: what a row gives does not depend on the rows beside it. FBGEMM rounds while it lays the
activations out, and sums in integers, which are exact: neither their order nor the number of
threads or rows is seen in a result.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

WEIGHT_LEVELS = 127
# Of a sign: 7 bits. Before VNNI a processor adds two products in 16 bits, and cuts off what does
# not fit: 2 * (63 + 64) * 127 does, as 2 * 255 * 127 would not.
LEVELS, ZERO = 63, 64
LEAST = 1e-30  # a row of zeros is divided by it


def pack_int8(weight: Tensor) -> Any:
    """weight: [out, in] float32. FBGEMM's int8 layout of it, or None where this torch or CPU cannot
    do it."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    scales = (weight.abs().amax(dim=1) / WEIGHT_LEVELS).clamp_(min=LEAST)
    rounded = (weight / scales[:, None]).round_().to(torch.int8)
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    quantized = torch.backends.quantized
    engine = quantized.engine
    try:
        quantized.engine = "fbgemm"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of tensors that will go, some day
            tensor = torch._make_per_channel_quantized_tensor(rounded, scales.double(), zeros, 0)
            packed = torch.ops.quantized.linear_prepack(tensor, None)
        int8_product(weight.new_zeros(1, weight.shape[1]), packed)
    except (AttributeError, RuntimeError):
        return None
    finally:
        quantized.engine = engine
    return packed


def int8_product(x: Tensor, packed: Any) -> Tensor:
    """x: [rows, in] float32; packed: of `pack_int8`, [out, in]. Returns [rows, out] float32."""
    largest = x.abs().amax(dim=1, keepdim=True).clamp_(min=LEAST)
    product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    y: Tensor = product(x / largest, 1 / LEVELS, ZERO, packed)
    return y.mul_(largest)

"""Made tests/data/pack_quantized.safetensors and bitsandbytes.safetensors, with compressed-tensors
0.20.0 and bitsandbytes 0.50.2, where both are installed:

    python tests/engine/checkpoints/make_packed.py tests/data

Matrices as these libraries store them and, as `expected.*`, what they make of them again; of the
largest some rows.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys
from pathlib import Path

import torch
from bitsandbytes import functional as bnb
from compressed_tensors.compressors import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

# Shape, block, doubly: so many blocks that their scales have two; an odd number of values.
BLOCKS = {"nf4": ((130, 128), 64, True), "fp4": ((9, 7), 64, False), "wide": ((16, 40), 128, True)}


def pack_quantized():
    """Named by bits, group size (0: of outputs) and symmetry."""
    tensors = {}
    for bits in (4, 8):
        for size in (16, 0):
            for symmetric in (True, False):
                name = f"{bits}-{size}-{'symmetric' if symmetric else 'asymmetric'}"
                for kind, tensor in packed(bits, size, symmetric).items():
                    tensors[f"expected.{name}" if kind == "weight" else f"{name}.{kind}"] = tensor
    return tensors


def packed(bits, size, symmetric):
    """Of 13 outputs and 48 inputs: neither fills its words."""
    groups = 48 // size if size else 1
    whole = {
        "weight": torch.randn(13, 48),
        "weight_scale": (torch.rand(13, groups) + 0.5) / 2 ** (bits - 2),
    }
    if not symmetric:
        whole["weight_zero_point"] = torch.randint(-5, 6, (13, groups)).to(torch.int8)
    about = QuantizationArgs(
        num_bits=bits,
        symmetric=symmetric,
        strategy="group" if size else "channel",
        group_size=size or None,
    )
    scheme = QuantizationScheme(targets=["Linear"], weights=about)
    stored = PackedQuantizationCompressor.compress(whole, scheme)
    again = PackedQuantizationCompressor.decompress(stored, scheme)
    return {**stored, "weight": again["weight"]}


def bitsandbytes():
    """4 bits of each kind, and 8."""
    tensors = {}
    for name, (shape, block, doubly) in BLOCKS.items():
        kind = "fp4" if name == "fp4" else "nf4"
        values, state = bnb.quantize_4bit(
            torch.randn(shape), blocksize=block, compress_statistics=doubly, quant_type=kind
        )
        tensors[f"{name}.weight"] = values
        for part, tensor in state.as_dict(packed=True).items():
            tensors[f"{name}.weight.{part}"] = tensor
        again = bnb.dequantize_4bit(values, state).float()
        tensors[f"expected.{name}"] = torch.cat([again[:4], again[-4:]])
    values, largest, _ = bnb.int8_vectorwise_quant(torch.randn(10, 24).half())
    tensors |= {
        "int8.weight": values,
        "int8.SCB": largest,
        "int8.weight_format": torch.tensor(0, dtype=torch.uint8),
        "expected.int8": bnb.int8_vectorwise_dequant(values, largest).float(),
    }
    return tensors


if __name__ == "__main__":
    torch.manual_seed(0)
    for make in (pack_quantized, bitsandbytes):
        tensors = {name: tensor.contiguous() for name, tensor in make().items()}
        save_file(tensors, Path(sys.argv[1]) / f"{make.__name__}.safetensors")

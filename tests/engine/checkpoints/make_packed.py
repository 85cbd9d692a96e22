"""Made pack_quantized, bitsandbytes, gptq and awq.safetensors in tests/data, with
compressed-tensors 0.20.0 and bitsandbytes 0.50.2 where both are installed, and the source
distributions of GPTQModel 7.7.0 and AutoAWQ 0.2.9 in a folder, which do not install everywhere:

    python tests/engine/checkpoints/make_packed.py tests/data FOLDER

Matrices as these libraries store them and, as `expected.*`, what they make of them again; of the
largest some rows.
"""

# mypy: ignore-errors

from __future__ import annotations
import __future__

import ast
import math
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import transformers
from bitsandbytes import functional as bnb
from compressed_tensors.compressors import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from torch import nn

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


def function(path, name, **known):
    """One of somebody's source, without what else its module imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name][0]
    found.decorator_list = []
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module([found], []), str(path), "exec", flags), known)
    return known[name]


class Module(SimpleNamespace):
    """What a function takes for its module."""

    def register_buffer(self, name, tensor):
        setattr(self, name, tensor)


def drawn(out, inside, bits, size):
    """A linear, its scales and zeros, [out, groups]; scales are whole in float16."""
    linear = nn.Linear(inside, out, bias=False)
    scales = ((torch.rand(out, inside // size) + 0.5) / 2**bits).half().float()
    zeros = torch.randint(1, 2**bits, scales.shape).float()
    return linear, scales, zeros


def gptq(sources):
    """Named by bits, format and order of inputs."""
    (folder,) = sources.glob("gptqmodel-*/gptqmodel")
    linears, log = folder / "nn_modules" / "qlinear" / "__init__.py", Module()
    log.info = Module(once=lambda text: None)
    known = {"t": torch, "np": np, "nn": nn, "math": math, "transformers": transformers}
    limits = Module(threadpool_limits=lambda count: nullcontext())
    pack = function(
        linears, "pack_original", THREADPOOLCTL=limits, _ConvNd=nn.modules.conv._ConvNd, **known
    )
    unpack = function(
        linears, "dequantize_weight", _torch_right_shift=torch.bitwise_right_shift, **known
    )
    apply = function(linears, "_dequantize_from_codes", **known)
    older = function(
        folder / "utils" / "model.py", "convert_gptq_v2_to_v1_format_module",
        BaseQuantLinear=Module, log=log, torch=torch,
    )  # fmt: skip
    tensors = {}
    for bits, form, order in (
        (2, "gptq", "plain"), (4, "gptq", "plain"), (4, "gptq", "shuffled"),
        (4, "gptq_v2", "plain"), (8, "gptq", "plain"),
    ):  # fmt: skip
        linear, scales, zeros = drawn(13, 48, bits, 16)
        shifts = torch.arange(0, 32, bits)
        module = Module(
            bits=bits, maxq=2**bits - 1, planar=False, pack_dtype=torch.int32, pack_dtype_bits=32,
            pack_factor=32 // bits, pack_np_math_dtype=np.uint32, pack_np_dtype=np.int32,
            in_features=48, dequant_dtype=torch.int16, qzero_format=lambda format: None,
            wf_unsqueeze_zero=shifts[None, None],
            wf_unsqueeze_neg_one=shifts[None, :, None], _init_wf_unsqueeze_buffers=lambda: None,
        )  # fmt: skip
        groups = torch.arange(48) // 16
        groups = groups[torch.randperm(48)] if order == "shuffled" else groups
        pack(module, linear, scales, zeros, groups.int())
        name = f"{bits}-{form}-{order}"
        stored = {k: getattr(module, k) for k in ("qweight", "scales", "g_idx")}
        module._dequantize_from_codes = lambda *args, m=module, **more: apply(m, *args, **more)
        module.scales = module.scales.float()  # exactly
        tensors[f"expected.{name}"] = unpack(module).t().float()
        if form == "gptq":
            older(module, module)
        tensors |= {f"{name}.{k}": v for k, v in {**stored, "qzeros": module.qzeros}.items()}
    return tensors


def awq(sources):
    """Of 32 outputs and 48 inputs."""
    (folder,) = sources.glob("autoawq-*/awq")
    made = lambda bits, size, inside, out, *rest: Module(  # noqa: E731
        w_bit=bits, in_features=inside, out_features=out
    )
    pack = function(
        folder / "modules" / "linear" / "gemm.py", "from_linear",
        torch=torch, get_best_device=lambda: "cpu",
    )  # fmt: skip
    path, known = folder / "utils" / "packing_utils.py", {"torch": torch}
    known["AWQ_REVERSE_ORDER"] = [0, 4, 1, 5, 2, 6, 3, 7]  # as the file has it
    for name in ("unpack_awq", "reverse_awq_order"):
        known[name] = function(path, name, **known)
    unpack = function(path, "dequantize_gemm", **known)
    linear, scales, zeros = drawn(32, 48, 4, 16)
    linear.weight.data.copy_((torch.randint(0, 16, (32, 48)) - wide(zeros)) * wide(scales))
    module = pack(made, linear, 4, 16, scales=scales.t(), zeros=zeros.t())
    tensors = {f"4.{k}": getattr(module, k) for k in ("qweight", "qzeros", "scales")}
    again = unpack(module.qweight, module.qzeros, module.scales.float(), 4, 16)
    return {**tensors, "expected.4": again.t().float()}


def wide(each):
    """[out, groups] -> [out, inputs]."""
    return each.repeat_interleave(16, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    folder, sources = map(Path, sys.argv[1:])
    with torch.inference_mode():
        made = {make.__name__: make() for make in (pack_quantized, bitsandbytes)}
        made |= {make.__name__: make(sources) for make in (gptq, awq)}
    for name, tensors in made.items():
        whole = {key: tensor.contiguous() for key, tensor in tensors.items()}
        save_file(whole, folder / f"{name}.safetensors")

"""Checkpoints in fewer bits: multiplied out to what they stand for, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader
from lookhear.engine.models.qwen3 import Qwen3Model
from tools.random_checkpoints.qwen3 import build_random_qwen3

FP8 = torch.float8_e4m3fn
Tensors = dict[str, torch.Tensor]


def matrices(tensors: Tensors) -> list[str]:
    return [
        name for name, tensor in tensors.items() if "_proj.weight" in name and tensor.dim() == 2
    ]


def by_block(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks of 16 x 16, the last ones smaller."""
    rows, columns = weight.shape
    scale = torch.zeros(-(-rows // 16), -(-columns // 16))
    stored = torch.zeros(rows, columns, dtype=FP8)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            part = weight[16 * i : 16 * i + 16, 16 * j : 16 * j + 16]
            scale[i, j] = part.abs().max() / 448
            stored[16 * i : 16 * i + 16, 16 * j : 16 * j + 16] = (part / scale[i, j]).to(FP8)
    return stored, scale


def by_row(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = weight.abs().amax(1, keepdim=True) / 127
    return (weight / scale).round().to(torch.int8), scale


def whole(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = weight.abs().max() / 448
    return (weight / scale).to(FP8), scale.reshape(1)


FORMS: dict[str, tuple[Any, str, dict[str, Any], float]] = {
    "fp8": (
        by_block,
        "weight_scale_inv",
        {"quant_method": "fp8", "weight_block_size": [16, 16]},
        0.07,
    ),
    "int8": (
        by_row,
        "weight_scale",
        {"quant_method": "compressed-tensors", "format": "int-quantized"},
        0.01,
    ),
    "fp8 tensor": (
        whole,
        "weight_scale",
        {"quant_method": "compressed-tensors", "format": "float-quantized"},
        0.07,
    ),
}


def configured(folder: Path, quantised: dict[str, Any]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": quantised}))


@pytest.mark.parametrize("name", FORMS)
def test_it_is_what_it_stands_for(tmp_path: Path, name: str) -> None:
    rounded, kind, config, most = FORMS[name]
    build_random_qwen3(tmp_path)
    path = tmp_path / "model.safetensors"
    plain = load_file(path)
    tensors = dict(plain)
    for matrix in matrices(plain):
        base = matrix.removesuffix(".weight")
        tensors[matrix], tensors[f"{base}.{kind}"] = rounded(plain[matrix])
        tensors[f"{base}.input_scale"] = torch.ones(1)
        if base.endswith("k_proj"):  # of a cache in float8, as older and newer libraries have it
            tensors[f"{base}.output_scale"] = torch.ones(1)
            tensors |= {f"{base[:-6]}{of}_scale": torch.ones(1) for of in ("k", "v")}
    save_file(tensors, path)
    configured(tmp_path, config)
    reader = CheckpointReader(tmp_path)
    for matrix in matrices(plain):
        found = reader.take(matrix, *plain[matrix].shape)
        assert found.dtype == torch.float32
        assert (found - plain[matrix]).abs().max() <= most * plain[matrix].abs().max()
    assert Qwen3Model.from_folder(tmp_path).num_parameters == sum(
        tensor.numel() for tensor in plain.values()
    )


@pytest.mark.parametrize(
    ("quantised", "got"),
    [
        ({"quant_method": "gptq", "bits": 3}, r"got 'gptq' \(bits 3\)"),
        ({"quant_method": "gptq"}, r"got 'gptq' \(bits None\)"),
        (
            {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"},
            r"got 'gptq' \(marlin\)",
        ),
        ({"quant_method": "gptq", "bits": 4, "is_marlin_format": True}, r"'gptq' \(marlin\)"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, r"got 'gptq' \(group_size 0\)"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, r"got 'awq' \(gemv\)"),
        ({"quant_method": "awq", "bits": 8}, r"got 'awq' \(bits 8\)"),
        ({"quant_method": "awq", "bits": 4, "backend": "llm-awq"}, r"got 'awq' \(llm-awq\)"),
        *(({"quant_method": name}, f"got '{name}'") for name in ("quip", "hqq", "aqlm", "exl2")),
        (
            {"quant_method": "compressed-tensors", "format": "marlin-24"},
            r"got 'compressed-tensors' \(marlin-24\)",
        ),
    ],
)
def test_others_are_refused_with_what_loads(
    tmp_path: Path, quantised: dict[str, Any], got: str
) -> None:
    build_random_qwen3(tmp_path)
    configured(tmp_path, quantised)
    with pytest.raises(CheckpointError, match=r"expected fp8 .*compressed-tensors.*" + got):
        CheckpointReader(tmp_path)


def test_groups_may_have_formats_of_their_own(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path)
    mixed = {"quant_method": "compressed-tensors", "format": "mixed-precision"}
    groups = {"a": {"format": "int-quantized"}, "b": {"format": "pack-quantized"}}
    configured(tmp_path, {**mixed, "config_groups": groups})
    CheckpointReader(tmp_path)
    groups["b"]["format"] = "nvfp4-pack-quantized"
    configured(tmp_path, {**mixed, "config_groups": groups})
    with pytest.raises(CheckpointError, match=r"got 'compressed-tensors' \(nvfp4-pack-quantized"):
        CheckpointReader(tmp_path)


def test_int8_may_have_zero_points(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    (matrix, *_) = matrices(tensors)
    base = matrix.removesuffix(".weight")
    values, scale = by_row(tensors[matrix])
    zeros = torch.arange(len(values), dtype=torch.int8)[:, None] - 3
    beside = {f"{base}.weight_scale": scale, f"{base}.weight_zero_point": zeros}
    save_file({**tensors, matrix: values, **beside}, path)
    configured(tmp_path, FORMS["int8"][2])
    found = CheckpointReader(tmp_path)
    assert found.take_scaled(matrix, torch.int8, *values.shape) is None
    expected = (values.float() - zeros.float()) * scale
    assert torch.equal(found.take(matrix, *values.shape), expected)
    save_file({**tensors, matrix: values, **beside, f"{base}.weight_zero_point": zeros[:3]}, path)
    with pytest.raises(CheckpointError, match="expected a zero point of"):
        CheckpointReader(tmp_path).take(matrix, *values.shape)


def test_a_scale_that_does_not_belong_is_named(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    (matrix, *_) = matrices(tensors)
    tensors[matrix], scale = by_row(tensors[matrix])
    configured(tmp_path, FORMS["int8"][2])
    for beside, message in (
        ({}, "expected one scale beside it, got 0"),
        ({matrix.removesuffix(".weight") + ".weight_scale": scale[:3]}, "expected a scale of"),
    ):
        save_file({**tensors, **beside}, path)
        shape = tensors[matrix].shape
        with pytest.raises(CheckpointError, match=message):
            CheckpointReader(tmp_path).take(matrix, *shape)

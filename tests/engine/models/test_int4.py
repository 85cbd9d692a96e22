"""Decoders whose matrices have 4 bits: near what they are in float32, and as stored where they are
stored so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.kernels import INT4, LinearWeights, linear
from tests.engine.checkpoints.packing import Drawn, awq, draw, gptq
from tests.engine.models.test_fp8 import logits
from tools.random_checkpoints.qwen3 import EXPERTS, build_random_qwen3, build_random_qwen3_asr
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl

SIZES = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized"}


def linears(model: Qwen3Model) -> list[LinearWeights]:
    found = []
    for layer in model.weights.layers:
        found += [layer.qkv, layer.out, layer.ffn.gate_up, layer.ffn.down]  # type: ignore[union-attr]
    return found


def whole(weights: LinearWeights) -> Tensor:
    """[out, in], whatever its layout: what it makes of single inputs."""
    return linear(torch.eye(weights.in_features), weights).t()


def test_logits_are_near_those_of_whole_weights(tmp_path: Path) -> None:
    """Rows of 64 numbers average less out than true ones."""
    build_random_qwen3(tmp_path, tie_word_embeddings=False, **SIZES)
    exact, rounded = (Qwen3Model.from_folder(tmp_path, linears=kind) for kind in (None, INT4))
    assert all(weights.int4 is not None for weights in linears(rounded))
    assert rounded.weights.head.int4 is None and rounded.num_parameters == exact.num_parameters
    tokens = torch.randint(0, 160, (24,), generator=torch.Generator().manual_seed(0))
    expected = logits(exact, tokens, (24,))
    one = logits(rounded, tokens, (24,))
    error = float((one - expected).pow(2).mean().sqrt() / expected.std())
    assert 1e-3 < error < 0.5, error
    torch.testing.assert_close(logits(rounded, tokens, (1,) * 24), one, atol=1e-3, rtol=1e-3)


def stored(folder: Path, settings: dict[str, Any], **drawing: Any) -> dict[str, Drawn]:
    """Rewrites a folder's matrices with drawn ones of 4 bits, by name."""
    path = folder / "model.safetensors"
    tensors, found = load_file(path), dict[str, Drawn]()
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        out, inside = tensors.pop(name).shape
        drawn = found[name] = draw(out, inside, 4, 32, **drawing)
        if settings is PACKED:
            packed = {
                "weight_packed": gptq(drawn, 4)["qweight"].t(),
                "weight_scale": drawn.scales.t(),
                "weight_shape": torch.tensor([out, inside]),
            }
        else:
            packed = gptq(drawn, 4) if settings is GPTQ else awq(drawn)
        tensors |= {name.removesuffix("weight") + kind: part for kind, part in packed.items()}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    configured(folder, settings)
    return found


def configured(folder: Path, settings: dict[str, Any]) -> None:
    about = folder / "config.json"
    config = {**json.loads(about.read_text()), "quantization_config": settings}
    about.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize("settings", [GPTQ, AWQ, PACKED], ids=lambda s: s["quant_method"])
def test_what_is_stored_in_groups_is_kept(tmp_path: Path, settings: dict[str, Any]) -> None:
    build_random_qwen3(tmp_path, **SIZES)
    drawn = stored(tmp_path, settings, symmetric=settings is PACKED)
    model = Qwen3Model.from_folder(tmp_path, linears=INT4, dtype=torch.bfloat16)
    plain = Qwen3Model.from_folder(tmp_path)
    assert model.num_parameters == plain.num_parameters
    for ours, theirs in zip(linears(model), linears(plain), strict=True):
        assert ours.int4 is not None and ours.int4.group == 32
        assert ours.int4.scales.dtype == torch.float16  # as they are stored
        assert (ours.int4.zeros is None) == (settings is PACKED)
        assert torch.equal(whole(ours), whole(theirs))
    keys = model.weights.layers[1].qkv
    name = "model.layers.1.self_attn.k_proj.weight"
    assert torch.equal(whole(keys)[64:96], drawn[name].whole)


def test_larger_groups_become_several_of_ours(tmp_path: Path) -> None:
    """One for all inputs, too; what nobody converted is rounded."""
    build_random_qwen3(tmp_path, **SIZES)
    path = tmp_path / "model.safetensors"
    tensors, base = load_file(path), "model.layers.0.mlp.down_proj."
    drawn = draw(64, 128, 4, 128)
    del tensors[f"{base}weight"]
    tensors |= {base + kind: tensor for kind, tensor in gptq(drawn, 4).items()}
    save_file(tensors, path)
    configured(tmp_path, {**GPTQ, "group_size": -1})
    model = Qwen3Model.from_folder(tmp_path, linears=INT4)
    down = model.weights.layers[0].ffn.down  # type: ignore[union-attr]
    assert down.int4 is not None and down.int4.group == 128
    assert torch.equal(whole(down), drawn.whole)
    assert all(weights.int4 is not None for weights in linears(model))


def test_inputs_in_another_order_are_rounded_anew(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path, **SIZES)
    stored(tmp_path, GPTQ, shuffled=True)
    model = Qwen3Model.from_folder(tmp_path, linears=INT4)
    plain = Qwen3Model.from_folder(tmp_path)
    for ours, theirs in zip(linears(model), linears(plain), strict=True):
        assert ours.int4 is not None and ours.int4.scales.dtype == torch.float32
        error = (whole(ours) - whole(theirs)).pow(2).mean().sqrt() / whole(theirs).std()
        assert 1e-3 < error < 0.13


def test_what_has_no_groups_stays_whole(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path, head_dim=16, intermediate_size=48)
    layer = Qwen3Model.from_folder(tmp_path, linears=INT4).weights.layers[0]
    assert layer.qkv.int4 is not None
    assert layer.ffn.down.int4 is None  # type: ignore[union-attr]


def test_encoders_stay_as_they_are(tmp_path: Path) -> None:
    build_random_qwen3_asr(tmp_path / "asr")
    heard = Qwen3AsrModel.from_folder(tmp_path / "asr", linears=INT4)
    build_random_qwen3_vl(tmp_path / "vl")
    seen = Qwen3VLModel.from_folder(tmp_path / "vl", linears=INT4)
    for model in (heard, seen):
        assert model.decoder.weights.layers[0].qkv.int4 is not None
        assert all(place.weights.int4 is None for place in model.tower.values())


def test_experts_are_refused(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path, **EXPERTS)
    with pytest.raises(CheckpointError, match="int4 is not for layers of experts"):
        Qwen3Model.from_folder(tmp_path, linears=INT4)

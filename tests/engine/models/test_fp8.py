"""Decoders whose matrices are in float8: near what they are in float32, whoever rounded them."""

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
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.cache import PagedBatch
from lookhear.kernels import round_int8, round_rows
from lookhear.kernels.fp8 import FP8
from tools.random_checkpoints.qwen3 import EXPERTS, build_random_qwen3, build_random_qwen3_asr
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl


def logits(model: Qwen3Model, tokens: Tensor, pieces: tuple[int, ...]) -> Tensor:
    """Of all tokens of one row, fed in pieces of so many."""
    cache = model.new_cache(2 + len(tokens) // BLOCK_TOKENS)
    table = torch.arange(1, cache.num_blocks)[None]
    found, past = [], 0
    for count in pieces:
        places = torch.arange(past, past + count)
        batch = PagedBatch(
            places, places + BLOCK_TOKENS, table, torch.tensor([past]), torch.tensor([count]),
            is_decode=count == 1,
        )  # fmt: skip
        found.append(model.logits(model.forward(tokens[past : past + count], batch, cache)))
        past += count
    return torch.cat(found)


def test_logits_are_near_those_of_whole_weights(tmp_path: Path) -> None:
    """A prompt, whose activations are rounded, and tokens one by one, whose are not; rows of 32
    numbers average less out than true ones."""
    build_random_qwen3(tmp_path, tie_word_embeddings=False)
    whole, rounded = (Qwen3Model.from_folder(tmp_path, linears=kind) for kind in (None, FP8))
    layer = rounded.weights.layers[0]
    assert layer.qkv.weight.dtype == torch.float8_e4m3fn and layer.out.scales is not None
    assert rounded.weights.head.scales is None and rounded.weights.tokens.dtype == torch.float32
    assert rounded.num_parameters == whole.num_parameters
    tokens = torch.randint(0, 160, (24,), generator=torch.Generator().manual_seed(0))
    exact = logits(whole, tokens, (24,))
    for pieces, most in (((24,), 0.25), ((1,) * 24, 0.2)):
        error = (logits(rounded, tokens, pieces) - exact).pow(2).mean().sqrt() / exact.std()
        assert 1e-4 < error < most, (pieces, float(error))


def stored(folder: Path, scaled: Any, kind: str, config: dict[str, Any]) -> dict[str, Tensor]:
    """Rewrites a folder's matrices in float8; returns its tensors."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        values, scale = scaled(tensors[name])
        tensors[name], tensors[name.removesuffix("weight") + kind] = values, scale
    save_file(tensors, path)
    about = folder / "config.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "quantization_config": config}))
    return tensors


def by_row(weight: Tensor) -> tuple[Tensor, Tensor]:
    values, scales = round_rows(weight / 3.0)  # not what we would have found
    return values, (scales * 3.0)[:, None]


def of_all(weight: Tensor) -> tuple[Tensor, Tensor]:
    scale = weight.abs().max() / 448
    return (weight / scale).to(torch.float8_e4m3fn), scale.reshape(1)


@pytest.mark.parametrize("scaled", [by_row, of_all])
def test_what_is_stored_with_a_scale_for_each_output_is_kept(tmp_path: Path, scaled: Any) -> None:
    build_random_qwen3(tmp_path)
    config = {"quant_method": "compressed-tensors", "format": "float-quantized"}
    tensors = stored(tmp_path, scaled, "weight_scale", config)
    model = Qwen3Model.from_folder(tmp_path, linears=FP8, dtype=torch.bfloat16)
    down = model.weights.layers[1].ffn.down  # type: ignore[union-attr]
    name = "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(down.weight.view(torch.uint8), tensors[name].view(torch.uint8))
    assert down.scales is not None
    assert torch.equal(down.scales, tensors[f"{name}_scale"].float().flatten().expand(32))
    qkv = model.weights.layers[0].qkv
    keys = tensors["model.layers.0.self_attn.k_proj.weight"]
    assert torch.equal(qkv.weight[48:72].view(torch.uint8), keys.view(torch.uint8))
    plain = Qwen3Model.from_folder(tmp_path)
    assert model.num_parameters == plain.num_parameters


def test_what_is_stored_otherwise_is_rounded_anew(tmp_path: Path) -> None:
    """A scale for each block: multiplied out, then rounded by row."""
    build_random_qwen3(tmp_path)

    def by_block(weight: Tensor) -> tuple[Tensor, Tensor]:
        count = weight.shape[1] // 16
        scale = torch.linspace(1.0, 2.0, count)[None] * weight.abs().max() / 448
        wide = scale.repeat_interleave(16, 1)
        return (weight / wide).to(torch.float8_e4m3fn), scale

    blocks = {"quant_method": "fp8", "weight_block_size": [96, 16]}
    tensors = stored(tmp_path, by_block, "weight_scale_inv", blocks)
    name = "model.layers.0.self_attn.q_proj.weight"
    wide = tensors[f"{name}_scale_inv"].repeat_interleave(16, 1)
    expected, scales = round_rows(tensors[name].float() * wide)
    found = Qwen3Model.from_folder(tmp_path, linears=FP8).weights.layers[0].qkv
    assert torch.equal(found.weight[:48].view(torch.uint8), expected.view(torch.uint8))
    assert found.scales is not None and torch.equal(found.scales[:48], scales)


def test_encoders_stay_as_they_are(tmp_path: Path) -> None:
    build_random_qwen3_asr(tmp_path / "asr")
    heard = Qwen3AsrModel.from_folder(tmp_path / "asr", linears=FP8)
    build_random_qwen3_vl(tmp_path / "vl")
    seen = Qwen3VLModel.from_folder(tmp_path / "vl", linears=FP8)
    for model in (heard, seen):
        assert model.decoder.weights.layers[0].qkv.scales is not None
        assert all(place.weights.scales is None for place in model.tower.values())


def test_what_fits_no_product_stays_whole(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path, intermediate_size=40)
    layer = Qwen3Model.from_folder(tmp_path, linears=FP8).weights.layers[0]
    assert layer.qkv.scales is not None
    assert layer.ffn.down.scales is None  # type: ignore[union-attr]
    assert layer.ffn.gate_up.scales is not None  # type: ignore[union-attr]


def test_experts_are_refused(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path, **EXPERTS)
    with pytest.raises(CheckpointError, match="fp8 is not for layers of experts"):
        Qwen3Model.from_folder(tmp_path, linears=FP8)


def test_a_cache_in_float8_takes_half_the_bytes_and_says_about_the_same(tmp_path: Path) -> None:
    """Token by token, and in one: what is read back is rounded, so they differ a little."""
    build_random_qwen3(tmp_path)
    model = Qwen3Model.from_folder(tmp_path)
    tokens = torch.randint(0, 160, (24,), generator=torch.Generator().manual_seed(0))
    exact, whole = logits(model, tokens, (24,)), model.new_cache(9).num_bytes
    model.cache_dtype = torch.float8_e4m3fn
    assert model.new_cache(9).num_bytes * 4 == whole
    for pieces in ((24,), (1,) * 24, (7, 17)):
        error = (logits(model, tokens, pieces) - exact).pow(2).mean().sqrt() / exact.std()
        assert 1e-4 < error < 0.1, (pieces, float(error))


def test_weights_in_int8_are_those_of_every_pass(tmp_path: Path) -> None:
    """A prompt's and a token's: inputs are never rounded. Stored so, they stay as they are."""
    build_random_qwen3(tmp_path)
    whole, rounded = (Qwen3Model.from_folder(tmp_path, linears=kind) for kind in (None, torch.int8))
    tokens = torch.randint(0, 160, (24,), generator=torch.Generator().manual_seed(0))
    exact, one = logits(whole, tokens, (24,)), logits(rounded, tokens, (24,))
    error = (one - exact).pow(2).mean().sqrt() / exact.std()
    assert 1e-5 < error < 0.03, float(error)
    torch.testing.assert_close(logits(rounded, tokens, (1,) * 24), one, atol=1e-3, rtol=1e-3)
    config = {"quant_method": "compressed-tensors", "format": "int-quantized"}

    def halved(weight: Tensor) -> tuple[Tensor, Tensor]:
        values, scales = round_int8(weight)
        return values // 2, 2.0 * scales[:, None]  # not what we would have found

    tensors = stored(tmp_path, halved, "weight_scale", config)
    found = Qwen3Model.from_folder(tmp_path, linears=torch.int8).weights.layers[1].out
    name = "model.layers.1.self_attn.o_proj.weight"
    assert torch.equal(found.weight, tensors[name]) and found.weight.dtype == torch.int8
    assert found.scales is not None
    assert torch.equal(found.scales, tensors[f"{name}_scale"].flatten())
    anew = Qwen3Model.from_folder(tmp_path, linears=FP8).weights.layers[1].out
    assert anew.weight.dtype == FP8

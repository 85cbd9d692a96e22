"""GPTQ, AWQ and pack-quantized: numbers of a few bits become what they stand for, exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.check.parity import decoder_logits
from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader, num_elements
from lookhear.engine.models.qwen3 import Qwen3Model
from tests.engine.checkpoints.packing import awq, draw, gptq
from tools.random_checkpoints.qwen3 import build_random_qwen3

DATA = Path(__file__).parents[2] / "data"  # by `make_packed.py`
Tensors = dict[str, Tensor]
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 16}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm"}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized"}


def reader(folder: Path, settings: dict[str, Any], tensors: Tensors) -> CheckpointReader:
    """Of a folder with these tensors, and a norm that nobody packs."""
    config = {"quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    held = {f"a.{name}": tensor.contiguous() for name, tensor in tensors.items()}
    save_file({**held, "norm.weight": torch.ones(5)}, folder / "model.safetensors")
    return CheckpointReader(folder)


def known(library: str, name: str) -> tuple[Tensors, Tensor]:
    """What it stores, and what it makes of it."""
    held = load_file(DATA / f"{library}.safetensors")
    start = f"{name}."
    tensors = {k.removeprefix(start): v for k, v in held.items() if k.startswith(start)}
    return tensors, held[f"expected.{name}"]


@pytest.mark.parametrize(
    ("bits", "form", "order"),
    [
        (2, "gptq", "plain"),
        (4, "gptq", "plain"),
        (4, "gptq", "shuffled"),
        (4, "gptq_v2", "plain"),
        (8, "gptq", "plain"),
    ],
)
def test_gptq_is_what_its_library_makes_of_it(
    tmp_path: Path, bits: int, form: str, order: str
) -> None:
    """Of 13 outputs, which fill no word."""
    tensors, expected = known("gptq", f"{bits}-{form}-{order}")
    settings = {**GPTQ, "bits": bits, "checkpoint_format": form, "desc_act": order == "shuffled"}
    found = reader(tmp_path, settings, tensors)
    assert torch.equal(found.take("a.weight", 13, 48), expected)


def test_biases_of_zeros_are_none(tmp_path: Path) -> None:
    """AutoGPTQ stores one beside every matrix; one that is not zeros is of another model."""
    build_random_qwen3(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.0.self_attn.o_proj"
    out, inside = tensors.pop(f"{name}.weight").shape
    packed = gptq(draw(out, inside, 4, 16), 4)
    tensors |= {f"{name}.{part}": tensor.contiguous() for part, tensor in packed.items()}
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": GPTQ}))
    save_file(tensors, path)
    alone = Qwen3Model.from_folder(tmp_path).num_parameters
    save_file({**tensors, f"{name}.bias": torch.zeros(out, dtype=torch.float16)}, path)
    assert Qwen3Model.from_folder(tmp_path).num_parameters == alone
    for other in (f"{name}.bias", "model.norm.bias"):
        value = torch.zeros(out) if "norm" in other else torch.full((out,), 0.5)
        save_file({**tensors, other: value}, path)
        with pytest.raises(CheckpointError, match=f"1 unexpected tensors: {other}"):
            Qwen3Model.from_folder(tmp_path)


def test_awq_is_what_its_library_makes_of_it(tmp_path: Path) -> None:
    tensors, expected = known("awq", "4")
    assert torch.equal(reader(tmp_path, AWQ, tensors).take("a.weight", 32, 48), expected)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("form", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_gptq(tmp_path: Path, bits: int, form: str, shuffled: bool) -> None:
    drawn = draw(40, 64, bits, 16, shuffled=shuffled)
    settings = {**GPTQ, "bits": bits, "checkpoint_format": form, "desc_act": shuffled}
    found = reader(tmp_path, settings, gptq(drawn, bits, less=1 if form == "gptq" else 0))
    assert torch.equal(found.take("a.weight", 40, 64), drawn.whole)
    assert torch.equal(found.take("norm.weight", 5), torch.ones(5))
    found.finish()
    assert num_elements(tmp_path) == 40 * 64 + 5


def test_gptq_without_an_index_or_with_one_group(tmp_path: Path) -> None:
    drawn = draw(8, 48, 4, 32)
    found = reader(tmp_path, {**GPTQ, "group_size": 32}, gptq(drawn, 4, index=False))
    assert torch.equal(found.take("a.weight", 8, 48), drawn.whole)
    drawn = draw(8, 48, 4, 48)
    found = reader(tmp_path, {**GPTQ, "group_size": -1}, gptq(drawn, 4))
    assert torch.equal(found.take("a.weight", 8, 48), drawn.whole)


def test_inputs_need_not_fill_their_words(tmp_path: Path) -> None:
    drawn = draw(8, 44, 4, 16)
    found = reader(tmp_path, GPTQ, gptq(drawn, 4))
    assert torch.equal(found.take("a.weight", 8, 44), drawn.whole)


def test_what_belongs_together_may_be_in_several_files(tmp_path: Path) -> None:
    drawn = draw(8, 48, 4, 16)
    reader(tmp_path, GPTQ, {})
    (tmp_path / "model.safetensors").unlink()
    files = {}
    for number, (kind, tensor) in enumerate(gptq(drawn, 4).items()):
        files[f"a.{kind}"] = f"{number}.safetensors"
        save_file({f"a.{kind}": tensor}, tmp_path / f"{number}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}), encoding="utf-8")
    found = CheckpointReader(tmp_path)
    assert torch.equal(found.take("a.weight", 8, 48), drawn.whole)
    found.finish()
    assert num_elements(tmp_path) == 8 * 48


def test_modules_of_other_bits(tmp_path: Path) -> None:
    """And of other groups."""
    drawn = draw(8, 64, 8, 32)
    changed = {"+:a": {"bits": 8, "group_size": 32}}
    for index in (True, False):
        found = reader(tmp_path, {**GPTQ, "dynamic": changed}, gptq(drawn, 8, index=index))
        assert torch.equal(found.take("a.weight", 8, 64), drawn.whole)


def test_awq(tmp_path: Path) -> None:
    drawn = draw(24, 64, 4, 16)
    found = reader(tmp_path, AWQ, awq(drawn))
    assert torch.equal(found.take("a.weight", 24, 64), drawn.whole)
    found.finish(ignore=["norm.weight"])
    assert num_elements(tmp_path) == 24 * 64 + 5


@pytest.mark.parametrize("name", ["4-16", "8-16", "4-0", "8-0"])
@pytest.mark.parametrize("symmetry", ["symmetric", "asymmetric"])
def test_pack_quantized_is_what_its_library_makes_of_it(
    tmp_path: Path, name: str, symmetry: str
) -> None:
    tensors, expected = known("pack_quantized", f"{name}-{symmetry}")
    assert ("weight_zero_point" in tensors) == (symmetry == "asymmetric")
    settings = {
        **PACKED,
        "config_groups": {"group_0": {"weights": {"symmetric": symmetry == "symmetric"}}},
    }
    found = reader(tmp_path, settings, tensors)
    assert torch.equal(found.take("a.weight", 13, 48), expected)
    found.finish(ignore=["norm.weight"])
    assert num_elements(tmp_path) == 13 * 48 + 5


def test_pack_quantized_in_another_order_and_beside_int8(tmp_path: Path) -> None:
    drawn = draw(8, 32, 4, 16, shuffled=True, symmetric=True)
    tensors = {
        "weight_packed": gptq(drawn, 4)["qweight"].t(),
        "weight_scale": drawn.scales.t(),
        "weight_g_idx": drawn.groups.int(),
        "weight_shape": torch.tensor([8, 32]),
        "b.weight": torch.full((4, 6), 3, dtype=torch.int8),
        "b.weight_scale": torch.full((4, 1), 0.5),
    }
    found = reader(tmp_path, PACKED, tensors)
    assert torch.equal(found.take("a.weight", 8, 32), drawn.whole)
    assert torch.equal(found.take("a.b.weight", 4, 6), torch.full((4, 6), 1.5))


def test_8_bits_with_a_scale_for_each_output_stay_so(tmp_path: Path) -> None:
    drawn = draw(8, 32, 8, 32, symmetric=True)
    found = reader(tmp_path, {**GPTQ, "bits": 8, "group_size": -1}, gptq(drawn, 8))
    kept = found.take_scaled("a.weight", torch.int8, 8, 32)
    assert kept is not None and torch.equal(kept[0].int() + 128, drawn.values.int())
    assert torch.equal(kept[0].float() * kept[1][:, None], drawn.whole)
    assert found.take_scaled("a.weight", torch.float8_e4m3fn, 8, 32) is None


@pytest.mark.parametrize("settings", [GPTQ, AWQ])
def test_a_decoder_is_the_one_that_it_stands_for(tmp_path: Path, settings: dict[str, Any]) -> None:
    build_random_qwen3(tmp_path, head_dim=16)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    whole = dict(tensors)
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        out, inside = tensors.pop(name).shape
        drawn = draw(out, inside, 4, 16)
        whole[name] = drawn.whole / 8
        drawn = type(drawn)(drawn.values, drawn.scales / 8, drawn.zeros, drawn.groups, drawn.whole)
        packed = gptq(drawn, 4) if settings is GPTQ else awq(drawn)
        tensors |= {f"{name.removesuffix('weight')}{k}": v for k, v in packed.items()}
    save_file(whole, path)
    expected = Qwen3Model.from_folder(tmp_path)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    about = tmp_path / "config.json"
    config = {**json.loads(about.read_text()), "quantization_config": settings}
    about.write_text(json.dumps(config))
    found = Qwen3Model.from_folder(tmp_path)
    assert found.num_parameters == expected.num_parameters
    tokens = torch.arange(20) * 7
    assert torch.equal(decoder_logits(found, tokens), decoder_logits(expected, tokens))


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (GPTQ, {"qzeros": None}, "expected a tensor a.qzeros beside it, found none"),
        (GPTQ, {"scales": None}, "expected a tensor a.scales beside it, found none"),
        (GPTQ, {"qzeros": torch.zeros(4, 2, dtype=torch.int32)},
         "a.qzeros: expected 1 columns for 4 bits and 8 outputs, got 2"),
        (GPTQ, {"scales": torch.ones(3, 8)}, "a.g_idx: expected groups 0 to 2, got 0 to 3"),
        (GPTQ, {"g_idx": torch.full((64,), -1, dtype=torch.int32)},
         "a.g_idx: expected groups 0 to 3, got -1 to -1"),
        (GPTQ, {"g_idx": torch.zeros(50, dtype=torch.int32)},
         r"a.g_idx: expected shape \[64\], got \[50\]"),
        (GPTQ, {"g_idx": None, "scales": torch.ones(3, 8)},
         "a.scales: expected 4 groups of 16, got 3"),
        (GPTQ, {"scales": torch.ones(4, 7)}, r"a.scales: expected shape \[4, 8\], got \[4, 7\]"),
        (GPTQ, {"qweight": torch.zeros(8, 8)}, "a.qweight: expected int32, got float32"),
        (GPTQ, {"qweight": torch.zeros(8, dtype=torch.int32)}, "a.qweight: expected two axes"),
        (GPTQ, {"qzeros": torch.tensor(1)}, r"a.qzeros: expected two axes, got \[\]"),
        (GPTQ, {"scales": torch.tensor(1.0)}, r"a.scales: expected two axes, got \[\]"),
        (AWQ, {"qweight": torch.tensor(1)}, r"a.qweight: expected two axes, got \[\]"),
        (AWQ, {"qzeros": None}, "expected a tensor a.qzeros beside it, found none"),
        (AWQ, {"scales": torch.ones(2, 8)}, r"a.scales: expected shape \[4, 8\], got \[2, 8\]"),
        (AWQ, {"qzeros": torch.zeros(4, 8, dtype=torch.int32)},
         r"a.qzeros: expected shape \[4, 1\], got \[4, 8\]"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_named(
    tmp_path: Path, settings: dict[str, Any], change: dict[str, Tensor | None], message: str
) -> None:
    drawn = draw(8, 64, 4, 16)
    tensors: dict[str, Tensor | None] = dict(gptq(drawn, 4) if settings is GPTQ else awq(drawn))
    tensors |= change
    there = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=f"model.safetensors: tensor a.weight .*{message}"):
        reader(tmp_path, settings, there).take("a.weight", 8, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_shape": None}, "expected a tensor a.weight_shape beside it, found none"),
        ({"weight_shape": torch.tensor([8, -1])}, "a.weight_shape: expected two numbers >= 1"),
        ({"weight_shape": torch.tensor([8, 24])},
         r"a.weight_packed: expected .* 3 \(4 bits\) .* columns, got 8"),
        ({"weight_shape": torch.tensor([9, 64])},
         r"a.weight_packed: expected shape \[9, 8\], got \[8, 8\]"),
        ({"weight_packed": torch.tensor(1)}, r"a.weight_packed: expected two axes, got \[\]"),
        ({"weight_scale": torch.ones(8, 5)},
         r"a.weight_scale: expected shape \[8, a divisor of 64\], got \[8, 5\]"),
        ({"weight_zero_point": None}, "expected a tensor a.weight_zero_point beside it"),
        ({"weight_zero_point": torch.zeros(3, 4, dtype=torch.int32)},
         r"a.weight_zero_point: expected shape \[1, 4\], got \[3, 4\]"),
    ],
)  # fmt: skip
def test_what_does_not_belong_to_packed_weights_is_named(
    tmp_path: Path, change: dict[str, Tensor | None], message: str
) -> None:
    tensors: dict[str, Tensor | None] = {
        "weight_packed": torch.zeros(8, 8, dtype=torch.int32),
        "weight_scale": torch.ones(8, 4),
        "weight_zero_point": torch.zeros(1, 4, dtype=torch.int32),
        "weight_shape": torch.tensor([8, 64]),
    }
    tensors |= change
    there = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    settings = {**PACKED, "config_groups": {"group_0": {"weights": {"symmetric": False}}}}
    with pytest.raises(CheckpointError, match=message):
        reader(tmp_path, settings, there).take("a.weight", 8, 64)

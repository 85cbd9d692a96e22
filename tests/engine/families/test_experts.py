"""A Qwen3 of experts, served: adapters, drafts, vectors, and how its experts may be stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lookhear.engine.check.parity import compare
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.registry import family_of
from lookhear.engine.messages import AdapterFailed, AdapterLoaded, AnswerCompleted, LoadAdapter
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.batches import paged_batch
from tests.engine.chat.asking import ask, make_core, outcome, rest, text, user
from tests.engine.models.driving import Decoder
from tests.engine.pooling.reading import vectors
from tools.random_checkpoints.adapters import ATTENTION, build_random_adapter, merged
from tools.random_checkpoints.pooling import build_reranker
from tools.random_checkpoints.qwen3 import EXPERTS
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl

PROMPT = "Tell me about the red circle, please. " * 3
TOKENS = [5, 9, 40, 7, 33, 2] * 7
TOLERANCE = 1e-4
BLOCK = 16  # of the scales of a checkpoint in float8


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Its second layer is dense."""
    folder = tmp_path_factory.mktemp("experts") / "model"
    values = {**EXPERTS, "mlp_only_layers": [1], "num_hidden_layers": 3, "seed": 3}
    return folder, build_reranker(folder, **values)


def said(core: EngineCore, **settings: Any) -> str:
    core.submit(ask(user(PROMPT), max_tokens=24, ignore_end=True, **settings))
    events = rest(core)
    assert isinstance(outcome(events), AnswerCompleted)
    return text(events)


def test_vectors_are_those_of_transformers(served: tuple[Path, Any]) -> None:
    folder, model = served
    with torch.inference_mode():
        theirs = model.model(torch.tensor([TOKENS])).last_hidden_state[0, -1].numpy()
    core = make_core(folder)
    for _ in range(2):  # the second time from the cache
        (ours,) = vectors(core, TOKENS, normalise=False)
        assert np.abs(ours - theirs).max() <= TOLERANCE


def test_adapters_change_attention_and_dense_layers(
    served: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, model = served
    adapter = build_random_adapter(tmp_path, model, seed=1)
    changed = load_file(adapter / "adapter_model.safetensors")
    assert any("layers.1.mlp.up_proj" in name for name in changed)
    core = make_core(folder)
    core.submit(LoadAdapter("r", "m", "x", str(adapter)))
    (event,) = core.step()
    assert isinstance(event, AdapterLoaded), event
    with torch.inference_mode():
        theirs = merged(model, adapter).model(torch.tensor([TOKENS])).last_hidden_state[0, -1]
    (ours,) = vectors(core, TOKENS, model="m:x", normalise=False)
    assert np.abs(ours - theirs.numpy()).max() <= TOLERANCE
    (plain,) = vectors(core, TOKENS, normalise=False)
    assert np.abs(ours - plain).max() > 0.05


@pytest.mark.parametrize("name", ["experts.0.up_proj", "gate"])
def test_adapters_of_experts_are_refused_by_name(
    served: tuple[Path, Any], tmp_path: Path, name: str
) -> None:
    folder, model = served
    build_random_adapter(tmp_path, model, targets=ATTENTION)
    module = f"model.layers.0.mlp.{name}"
    pair = {"A": torch.zeros(4, 32), "B": torch.zeros(24, 4)}
    tensors = {f"base_model.model.{module}.lora_{side}.weight": pair[side] for side in "AB"}
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    core = make_core(folder)
    core.submit(LoadAdapter("r", "m", "x", str(tmp_path)))
    (event,) = core.step()
    assert isinstance(event, AdapterFailed) and f"got one of {module}" in event.message


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafts_change_nothing(
    served: tuple[Path, Any], tmp_path: Path, temperature: float
) -> None:
    """Those of what was said before, and those of a dense model."""
    settings = {"temperature": temperature, "seed": 4}
    expected = said(make_core(served[0], draft="off"), **settings)
    assert said(make_core(served[0], draft="ngram"), **settings) == expected
    build_reranker(tmp_path / "small", seed=5)
    core = make_core(served[0], draft=str(tmp_path / "small"))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = None
    assert said(core, **settings) == expected
    assert core.stats()["draft_passes"] > 0


def test_it_drafts_for_a_dense_one(served: tuple[Path, Any], tmp_path: Path) -> None:
    build_reranker(tmp_path / "large", seed=6)
    expected = said(make_core(tmp_path / "large", draft="off"))
    core = make_core(tmp_path / "large", draft=str(served[0]))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = None
    assert said(core) == expected and core.stats()["draft_passes"] > 0


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
def test_it_answers_in_other_precisions(served: tuple[Path, Any], dtype: str) -> None:
    assert said(make_core(served[0], dtype=dtype))


def test_half_and_bfloat16_stay_close(served: tuple[Path, Any]) -> None:
    tokens = torch.tensor(TOKENS)
    exact, half, short = (
        Decoder(Qwen3Model.from_folder(served[0], dtype=dtype, half=half)).step({"a": tokens})["a"]
        for dtype, half in (
            (torch.float32, False),
            (torch.float32, True),
            (torch.bfloat16, True),
        )  # fmt: skip
    )
    assert (half - exact).norm() <= 0.01 * exact.norm()
    # A token whose experts are all but equally likely goes another way.
    assert (short - exact).norm() <= 0.2 * exact.norm()


def test_int8_is_refused_by_name(served: tuple[Path, Any]) -> None:
    with pytest.raises(CheckpointError, match="dtype: int8 is not for layers of experts"):
        make_core(served[0], dtype="int8")


def test_check_compares_it(served: tuple[Path, Any]) -> None:
    found = compare(served[0], family_of(served[0])[1], np.zeros(1600, np.float32))
    assert found.agrees and found.tokens > 0


# --- how experts are stored ----------------------------------------------------------------------


def in_float8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = (-(-size // BLOCK) for size in weight.shape)
    wide = torch.zeros(rows * BLOCK, columns * BLOCK)
    wide[: weight.shape[0], : weight.shape[1]] = weight
    blocks = wide.view(rows, BLOCK, columns, BLOCK)
    scale = blocks.abs().amax((1, 3)) / 448
    stored = (blocks / scale[:, None, :, None]).view_as(wide)
    return stored[: weight.shape[0], : weight.shape[1]].to(torch.float8_e4m3fn), scale


def test_experts_in_float8_are_multiplied_out(served: tuple[Path, Any], tmp_path: Path) -> None:
    """As Qwen publishes them: a scale for each block of each expert, routers as they are."""
    folder = tmp_path
    for path in served[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if "_proj.weight" in name]:
        tensors[name], tensors[f"{name}_scale_inv"] = in_float8(tensors[name])
    assert sum("experts" in name for name in tensors) == 2 * 2 * 3 * 8
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]}
    (folder / "config.json").write_text(json.dumps(config))
    exact, rounded = (
        Decoder(Qwen3Model.from_folder(path)).step({"a": torch.tensor(TOKENS)})["a"]
        for path in (served[0], folder)
    )
    gap = (rounded - exact).norm() / exact.norm()
    assert 0.0 < gap <= 0.2


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeing")
    build_random_qwen3_vl(folder, text=EXPERTS)
    return folder


def logits(folder: Path) -> torch.Tensor:
    decoder = Qwen3VLModel.from_folder(folder).decoder
    places = torch.arange(len(TOKENS)).expand(3, -1)
    batch = paged_batch([[2, 1, 3]], [0], [len(TOKENS)], positions=places)
    return decoder.logits(decoder.forward(torch.tensor(TOKENS), batch, decoder.new_cache(4)))


def stored_otherwise(folder: Path, target: Path, form: str) -> None:
    """turned: input by output, as Qwen has published them. apart: one by one."""
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if ".experts." in name]:
        held = tensors.pop(name)
        if form == "turned":
            tensors[name] = held.transpose(1, 2).contiguous()
            continue
        base, _, part = name.rpartition(".")
        for expert, matrix in enumerate(held):
            if part == "down_proj":
                tensors[f"{base}.{expert}.down_proj.weight"] = matrix.contiguous()
            else:
                gate, up = matrix.chunk(2)
                tensors[f"{base}.{expert}.gate_proj.weight"] = gate.contiguous()
                tensors[f"{base}.{expert}.up_proj.weight"] = up.contiguous()
    save_file(tensors, target / "model.safetensors")
    (target / "config.json").write_bytes((folder / "config.json").read_bytes())


def test_fused_experts_in_float8_are_refused_by_name(seeing: Path, tmp_path: Path) -> None:
    stored_otherwise(seeing, tmp_path, "turned")
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "model.language_model.layers.0.mlp.experts.gate_up_proj"
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    tensors[f"{name}_scale_inv"] = torch.ones(8, 1, 1)
    save_file(tensors, path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=f"{name} cannot be read: expected one scale"):
        Qwen3VLModel.from_folder(tmp_path)


@pytest.mark.parametrize("form", ["turned", "apart"])
def test_experts_are_read_in_every_form(seeing: Path, tmp_path: Path, form: str) -> None:
    stored_otherwise(seeing, tmp_path, form)
    torch.testing.assert_close(logits(tmp_path), logits(seeing), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_experts_per_tok": 9}, r"num_experts_per_tok: expected at most num_experts \(8\)"),
        ({"moe_intermediate_size": 0}, "moe_intermediate_size: expected a whole number"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step: expected a whole number"),
        ({"mlp_only_layers": 1}, "mlp_only_layers: expected a list"),
        ({"moe_intermediate_size": 20}, r"experts.gate_up_proj: expected shape \[8, 40, 32\] or"),
    ],
)
def test_what_is_wrong_is_named(
    seeing: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    config = json.loads((seeing / "config.json").read_text())
    config["text_config"].update(change)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(seeing / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        Qwen3VLModel.from_folder(tmp_path)

"""Which heads are taken, and how the others are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.eagle3.config import LargeModel, is_head
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.paged.draft_model import ModelDrafter
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.chat.asking import make_core
from tools.random_checkpoints.eagle3 import LAYERS, build_random_eagle3, write_head
from tools.random_checkpoints.qwen3 import build_random_qwen3
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl
from tools.random_checkpoints.whisper import build_random_whisper

Change = Callable[[dict[str, Any], dict[str, Tensor]], None]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    build_random_qwen3(folder, num_hidden_layers=8)
    return folder


@pytest.fixture(scope="module")
def decoder(large: Path) -> Qwen3Model:
    return Qwen3Model.from_folder(large)


def load(folder: Path, large: Path, decoder: Qwen3Model) -> Eagle3Head:
    model = LargeModel(large, ("Qwen3ForCausalLM",), decoder.dims, decoder.vocab)
    return Eagle3Head.from_folder(folder, model, decoder)


def changed(folder: Path, large: Path, change: Change, form: str = "eagle") -> Path:
    tensors = build_random_eagle3(folder, large, says=60, form=form)
    config = json.loads((folder / "config.json").read_text())
    change(config, tensors)
    write_head(folder, config, tensors)
    return folder


def puts(name: str, value: Any) -> Change:
    return lambda config, tensors: config.update({name: value})


def drops(name: str) -> Change:
    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        del tensors[name]

    return change


def replaces(name: str, make: Callable[[Tensor], Tensor]) -> Change:
    return lambda config, tensors: tensors.update({name: make(tensors[name])})


def within(name: str, value: Any) -> Change:
    return lambda config, tensors: config["transformer_layer_config"].update({name: value})


def twice(tensor: Tensor) -> Tensor:
    tensor = tensor.clone()
    tensor[1] = tensor[0] - 1
    return tensor


REFUSED: dict[str, tuple[str, Change, str]] = {
    "width": (
        "eagle", puts("hidden_size", 64), r"hidden_size: expected 32, as .* has, got 64"
    ),
    "width of the model": (
        "eagle",
        puts("target_hidden_size", 4096),
        r"target_hidden_size: expected 32, as .* has, got 4096",
    ),
    "vocabulary": ("eagle", puts("vocab_size", 999), r"vocab_size: expected 160, as .*, got 999"),
    "says too many": (
        "eagle", puts("draft_vocab_size", 161), r"draft_vocab_size: expected at most .*160.* 161"
    ),
    "layers of a larger model": (
        "eagle",
        puts("eagle_config", {LAYERS: [1, 17, 32]}),
        r"ascending numbers of layers below 7, as .* has 8, got \[1, 17, 32\]",
    ),
    "layers by name": (
        "speculators", puts(LAYERS, ["a"]), r"ascending numbers of layers below 8.*got \['a'\]"
    ),
    "layers in disorder": ("speculators", puts(LAYERS, [4, 2, 5]), r"got \[4, 2, 5\]"),
    "several layers": (
        "speculators", within("num_hidden_layers", 2), r"num_hidden_layers: expected 1, .* got 2"
    ),
    "llama's frequencies": (
        "eagle",
        puts("rope_scaling", {"rope_type": "llama3", "factor": 8.0}),
        r"rope_type: expected 'default', got 'llama3'",
    ),
    "another kind": (
        "speculators",
        puts("speculators_model_type", "eagle"),
        r"speculators_model_type: expected 'eagle3', got 'eagle'",
    ),
    "another family": (
        "speculators",
        puts("speculators_config", {"verifier": {"architectures": ["LlamaForCausalLM"]}}),
        r"verifier: expected Qwen3ForCausalLM, as .* is, got 'LlamaForCausalLM'",
    ),
    "no description of the layer": (
        "speculators",
        lambda config, tensors: config.pop("transformer_layer_config") and None,
        r"transformer_layer_config: expected an object, got None",
    ),
    "EAGLE by name": (
        "eagle",
        puts("architectures", ["EagleLlamaForCausalLM"]),
        r"architectures: expected an EAGLE3 head, as LlamaForCausalLMEagle3, got 'Eagle",
    ),
    "EAGLE by weights": (
        "eagle",
        replaces("fc.weight", lambda fc: fc[:, :64].clone()),
        r"fc.weight: expected shape \[32, 96\], as an EAGLE3 head has, got \[32, 64\], as of EAGLE",
    ),
    "another number of layers that are read": (
        "eagle",
        replaces("fc.weight", lambda fc: torch.cat([fc, fc], 1)),
        r"fc.weight: expected shape \[32, 96\], got \[32, 192\]",
    ),
    "no map": ("eagle", drops("fc.weight"), r"expected a tensor fc.weight of shape \[32, 96\]"),
    "no norm of inputs": (
        "speculators",
        puts("norm_before_fc", True),
        r"expected a tensor input_norm.weight of shape \[96\], found none",
    ),
    "no norm": ("eagle", drops("midlayer.hidden_norm.weight"), r"hidden_norm.weight .*found none"),
    "no rows": ("eagle", drops("lm_head.weight"), r"lm_head.weight of shape \[60, 32\]"),
    "no tokens": ("eagle", drops("d2t"), r"expected a tensor d2t of shape \[60\]"),
    "tokens of another vocabulary": (
        "eagle",
        replaces("d2t", lambda d2t: d2t + 101),
        r"d2t: expected tokens from 0 to 159, got 1[6-9]\d|2\d\d",
    ),
    "a token twice": ("eagle", replaces("d2t", twice), r"d2t: expected 60 different tokens, got"),
    "tokens that are fractions": (
        "eagle", replaces("d2t", lambda d2t: d2t.float()), r"d2t: expected whole numbers, got .*32"
    ),
    "marks of other tokens": (
        "eagle", replaces("t2d", lambda t2d: ~t2d), r"t2d: expected the 60 tokens of d2t, got 100"
    ),
    "something else": (
        "eagle",
        lambda config, tensors: tensors.update(x=torch.zeros(2)),
        r"1 unexpected tensors: x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(
    name: str, large: Path, decoder: Qwen3Model, tmp_path: Path
) -> None:
    form, change, message = REFUSED[name]
    folder = changed(tmp_path / "head", large, change, form)
    assert is_head(folder)
    with pytest.raises(CheckpointError, match=message):
        load(folder, large, decoder)


def test_layers_have_to_be_named_for_a_model_of_few(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path / "large", num_hidden_layers=6)
    few = Qwen3Model.from_folder(tmp_path / "large")
    build_random_eagle3(tmp_path / "head", tmp_path / "large", says=60)
    with pytest.raises(
        CheckpointError, match=f"{LAYERS}: expected the layers that it reads, .* 6 alone"
    ):
        load(tmp_path / "head", tmp_path / "large", few)


def test_what_is_beside_it_and_not_needed_is_left(
    large: Path, decoder: Qwen3Model, tmp_path: Path
) -> None:
    def more(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors["midlayer.self_attn.rotary_emb.inv_freq"] = torch.ones(6)
        tensors["verifier_lm_head.weight"] = torch.ones(60, 32)
        del tensors["t2d"]

    head = load(changed(tmp_path, large, more), large, decoder)
    assert head.tap.layers == (2, 4, 5)


def test_layers_are_counted_by_what_goes_in_or_comes_out(
    large: Path, decoder: Qwen3Model, tmp_path: Path
) -> None:
    by_output = changed(tmp_path / "a", large, puts("eagle_config", {LAYERS: [1, 3, 6]}))
    by_input = changed(tmp_path / "b", large, puts(LAYERS, [2, 4, 7]), "speculators")
    heads = [load(folder, large, decoder) for folder in (by_output, by_input)]
    assert [head.tap.layers for head in heads] == [(2, 4, 7), (2, 4, 7)]


def test_a_pickle_is_tensors_alone(large: Path, decoder: Qwen3Model, tmp_path: Path) -> None:
    build_random_eagle3(tmp_path, large, says=60, is_pickled=True)
    assert load(tmp_path, large, decoder).vocab == decoder.vocab
    path = tmp_path / "pytorch_model.bin"
    torch.save({"fc.weight": tmp_path}, path)
    with pytest.raises(CheckpointError, match="expected numbers and tensors alone"):
        load(tmp_path, large, decoder)
    torch.save({"fc.weight": "x"}, path)
    with pytest.raises(CheckpointError, match="expected tensors by name alone, got fc.weight"):
        load(tmp_path, large, decoder)
    path.write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"expected (a file of torch.save|numbers)"):
        load(tmp_path, large, decoder)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"or pytorch_model\.bin, found config\.json"):
        load(tmp_path, large, decoder)


# --- by name, as it is served --------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vl")
    build_served_qwen3_vl(folder)
    return folder


def drafter(core: EngineCore) -> object:
    assert isinstance(core._runner, PagedRunner)
    return core._runner.drafter


def test_it_is_measured_when_the_engine_starts(served: Path, tmp_path: Path) -> None:
    build_random_eagle3(tmp_path, served, layers=(0, 1, 2), says=60)
    found = drafter(make_core(served, draft=str(tmp_path)))
    assert isinstance(found, ModelDrafter)
    assert found.costs is not None and found.costs.draft is not None
    assert found.num_passes == 0


def test_one_of_another_width_is_refused_when_the_engine_starts(
    served: Path, tmp_path: Path
) -> None:
    build_random_eagle3(tmp_path, served, layers=(0, 1, 2), hidden_size=64)
    with pytest.raises(CheckpointError, match="hidden_size: expected 32"):
        make_core(served, draft=str(tmp_path))


def test_what_is_neither_model_nor_head_is_refused(served: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(CheckpointError, match=r"draft: .*LlamaForCausalLM; nor is it an EAGLE3"):
        make_core(served, draft=str(tmp_path))


def test_a_family_that_takes_none_goes_on_without(
    served: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from lookhear.engine.config import EngineConfig
    from lookhear.engine.families.build import _with_drafts
    from lookhear.engine.families.registry import family_of

    build_random_eagle3(tmp_path / "head", served, layers=(0, 1, 2))
    build_random_whisper(tmp_path / "whisper")
    family, _ = family_of(tmp_path / "whisper")
    config = EngineConfig(model="w", draft=str(tmp_path / "head"))
    assert _with_drafts(config, family, lambda stage, share: None).draft == "auto"
    assert "w is a Whisper; an EAGLE3 head drafts none for it" in caplog.text


def test_a_pickle_is_downloaded_where_there_is_nothing_else(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookhear.engine.checkpoints.hub import resolve_checkpoint

    asked: list[list[str]] = []

    def snapshot(repo_id: str, *, allow_patterns: list[str], **_: object) -> str:
        asked.append(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert resolve_checkpoint("owner/head", reads_torch=True) == tmp_path
    assert ["pytorch_model.bin" in patterns for patterns in asked] == [False, True]
    build_random_eagle3(tmp_path, served, layers=(0, 1, 2))
    asked.clear()
    assert resolve_checkpoint("owner/head", reads_torch=True) == tmp_path
    assert ["pytorch_model.bin" in patterns for patterns in asked] == [False]

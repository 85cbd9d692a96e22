from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints import loader
from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    all_finite,
    read_json,
)
from lookhear.engine.families.registry import family_of
from lookhear.engine.whisper.model import WhisperModel
from tools.random_checkpoints.whisper import build_random_whisper

SMALL: dict[str, Any] = {
    "vocab": 50, "audio_positions": 10, "context": 8, "width": 8, "layers": 1, "tokenizer": False,
}  # fmt: skip
WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_random_whisper(tmp_path / "model", **SMALL)


def load_model(folder: Path, **options: Any) -> WhisperModel:
    """As an engine does: its family is looked up first."""
    family, _ = family_of(folder)
    assert family.name == "Whisper"
    return WhisperModel.from_folder(folder, **options)


def rewrite(folder: Path, changes: dict[str, Tensor | None]) -> None:
    tensors = load_file(folder / WEIGHTS)
    for name, tensor in changes.items():
        tensors.pop(name, None)
        if tensor is not None:
            tensors[name] = tensor
    save_file(tensors, folder / WEIGHTS)


def configure(folder: Path, **changes: object) -> None:
    config = read_json(folder / "config.json")
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def shard(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    names = sorted(tensors)
    files = {
        "model-00001-of-00002.safetensors": names[::2],
        "model-00002-of-00002.safetensors": names[1::2],
    }
    for file, part in files.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in files.items() for name in part}
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / WEIGHTS).unlink()


def output(folder: Path, dtype: torch.dtype = torch.float32) -> Tensor:
    model = load_model(folder, dtype=dtype)
    return model.encode(torch.ones(1, 80, 20)).float()


def test_shards_hold_the_same_model(folder: Path) -> None:
    whole = output(folder)
    shard(folder)
    assert torch.equal(output(folder), whole)


def test_a_precision_may_be_part_of_the_name(folder: Path) -> None:
    whole = output(folder)
    (folder / WEIGHTS).rename(folder / "model.fp16.safetensors")
    assert torch.equal(output(folder), whole)
    (folder / "model.fp16.safetensors").rename(folder / WEIGHTS)
    shard(folder)
    index = folder / "model.safetensors.index.json"
    index.rename(folder / "model.safetensors.index.fp32.json")
    assert torch.equal(output(folder), whole)


def test_files_are_opened_anew_while_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = output(folder)
    shard(folder)
    opened: list[Path] = []

    def opening(path: Path, **options: Any) -> Any:
        opened.append(path)
        return safe_open(path, **options)

    monkeypatch.setattr(loader, "MAPPED_BYTES", 300)
    monkeypatch.setattr(loader, "safe_open", opening)
    assert torch.equal(output(folder), whole)
    assert min(Counter(opened).values()) > 3, opened


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_stored_and_wanted_dtypes_are_independent(tmp_path: Path, stored: torch.dtype) -> None:
    half = build_random_whisper(tmp_path / "half", dtype=stored, **SMALL)
    full = build_random_whisper(tmp_path / "full", **SMALL)
    model = load_model(half)
    assert model.dtype == torch.float32 and model.encode(torch.ones(1, 80, 20)).dtype == model.dtype
    torch.testing.assert_close(output(half), output(full), atol=0.1, rtol=0.1)
    torch.testing.assert_close(output(half, torch.bfloat16), output(full), atol=0.2, rtol=0.2)


def test_progress_ends_at_one(folder: Path) -> None:
    heard: list[float] = []
    load_model(folder, progress=heard.append)
    assert heard == sorted(heard) and heard[-1] == 1.0


def test_a_tied_head_may_be_stored_again(folder: Path) -> None:
    alone = load_model(folder).num_parameters
    tokens = load_file(folder / WEIGHTS)["model.decoder.embed_tokens.weight"]
    rewrite(folder, {"proj_out.weight": tokens.clone()})
    assert load_model(folder).num_parameters == alone


def test_parameters_are_counted_once(folder: Path) -> None:
    stored = sum(t.numel() for t in load_file(folder / WEIGHTS).values())
    assert load_model(folder).num_parameters == stored


NAME = "model.encoder.layers.0.fc1.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({NAME: None}, rf"expected a tensor {NAME} of shape \[32, 8\], found none"),
        ({NAME: torch.zeros(32, 9)}, rf"{NAME}: expected shape \[32, 8\], got \[32, 9\]"),
        ({NAME: torch.zeros(32, 8).long()}, "expected floating-point numbers, got torch.int64"),
        ({NAME: torch.full((32, 8), torch.nan)}, "expected finite numbers, got NaN"),
        ({"model.encoder.extra": torch.zeros(1)}, "1 unexpected tensors: model.encoder.extra"),
    ],
)
def test_wrong_tensors(folder: Path, changes: dict[str, Tensor | None], message: str) -> None:
    rewrite(folder, changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_model(folder)
    assert str(folder) in str(caught.value)


FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@given(
    dtype=st.sampled_from([*FLOATS, torch.float8_e5m2, torch.int64]),
    shape=st.lists(st.integers(0, 70), min_size=0, max_size=2),
    seed=st.integers(0, 2**32 - 1),
)
def test_numbers_that_are_finite(dtype: torch.dtype, shape: list[int], seed: int) -> None:
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    assert all_finite(tensor)
    if dtype in FLOATS:
        largest = torch.finfo(dtype).max
        assert all_finite(torch.full(shape, largest, dtype=dtype))
        assert all_finite(torch.full(shape, -largest, dtype=dtype))


@given(
    dtype=st.sampled_from([*FLOATS, torch.float8_e5m2]),
    numbers=st.integers(1, 5000),
    wrong=st.lists(st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=3),
    places=st.randoms(use_true_random=False),
)
def test_a_number_that_is_not_finite(
    dtype: torch.dtype, numbers: int, wrong: list[float], places: random.Random
) -> None:
    """Wherever it stands, also beside one that is of another kind."""
    tensor = torch.ones(numbers)
    for value in wrong:
        tensor[places.randrange(numbers)] = value
    assert not all_finite(tensor.to(dtype))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": "8"}, "d_model: expected a whole number >= 1, got '8'"),
        ({"encoder_layers": 0}, "encoder_layers: expected a whole number >= 1, got 0"),
        ({"decoder_attention_heads": 3}, r"expected a divisor of d_model \(8\), got 3"),
        ({"activation_function": "relu"}, "activation_function: expected 'gelu', got 'relu'"),
        ({"architectures": ["Llama", "Bert"]}, "expected one of Whisper.*, got Llama, Bert"),
        ({"architectures": None}, "expected one of WhisperForCond.*, got None"),
    ],
)
def test_wrong_config(folder: Path, changes: dict[str, object], message: str) -> None:
    configure(folder, **changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_model(folder)
    assert "config.json" in str(caught.value)


def test_files_that_are_not_there_or_not_what_they_say(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected a file config\.json"):
        family_of(tmp_path)
    (folder / WEIGHTS).write_bytes(b"<html>not found</html>")
    with pytest.raises(CheckpointError, match="expected a safetensors file"):
        load_model(folder)
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match=r"expected model\.safetensors or .*pytorch_model\.bin"
    ):
        load_model(folder)
    (folder / "config.json").write_text("[1]")
    with pytest.raises(CheckpointError, match="expected a JSON object, got list"):
        load_model(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="expected JSON, got"):
        load_model(folder)


def test_a_shard_that_is_missing_a_tensor(folder: Path) -> None:
    shard(folder)
    path = folder / "model-00001-of-00002.safetensors"
    tensors = load_file(path)
    name = sorted(tensors)[0]
    del tensors[name]
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=f"expected a tensor {name}"):
        load_model(folder)


def test_contains(folder: Path) -> None:
    reader = CheckpointReader(folder, dtype=torch.float32)
    assert NAME in reader and "other" not in reader

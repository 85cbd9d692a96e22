"""A head that a config takes for the embeddings: they are, unless another one is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.moonshine.model import MoonshineModel
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.whisper.model import WhisperModel
from tools.random_checkpoints.moonshine import build_random_moonshine
from tools.random_checkpoints.qwen3 import build_random_qwen3
from tools.random_checkpoints.voxtral import build_random_voxtral
from tools.random_checkpoints.whisper import build_random_whisper


@dataclass(frozen=True)
class Kind:
    """head, embeddings: names of tensors. theirs: transformers' class. read: a folder, to what has
    logits, and how many parameters it has in all."""

    build: Callable[[Path], object]
    theirs: str
    head: str
    embeddings: str
    read: Callable[[Path], tuple[Any, int]]


def _voxtral(folder: Path) -> tuple[Any, int]:
    model = VoxtralModel.from_folder(folder)
    return model.decoder, model.num_parameters


def _counted(model: Any) -> tuple[Any, int]:
    return model, model.num_parameters


KINDS = {
    "qwen3": Kind(
        build_random_qwen3,
        "Qwen3ForCausalLM",
        "lm_head.weight",
        "model.embed_tokens.weight",
        lambda folder: _counted(Qwen3Model.from_folder(folder)),
    ),
    "whisper": Kind(
        lambda folder: build_random_whisper(folder, layers=1, vocab=300, tokenizer=False),
        "WhisperForConditionalGeneration",
        "proj_out.weight",
        "model.decoder.embed_tokens.weight",
        lambda folder: _counted(WhisperModel.from_folder(folder)),
    ),
    "moonshine": Kind(
        build_random_moonshine,
        "MoonshineForConditionalGeneration",
        "proj_out.weight",
        "model.decoder.embed_tokens.weight",
        lambda folder: _counted(MoonshineModel.from_folder(folder)),
    ),
    "voxtral": Kind(
        build_random_voxtral,
        "VoxtralRealtimeForConditionalGeneration",
        "language_model.lm_head.weight",
        "language_model.model.embed_tokens.weight",
        _voxtral,
    ),
}


def store(folder: Path, name: str, tensor: Tensor) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), name: tensor}, path, metadata={"format": "pt"})


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_another_head_is_the_checkpoints_as_in_transformers(kind: Kind, tmp_path: Path) -> None:
    import transformers

    kind.build(tmp_path)
    tokens = load_file(tmp_path / "model.safetensors")[kind.embeddings]
    head = torch.randn(tokens.shape, generator=torch.Generator().manual_seed(0))
    store(tmp_path, kind.head, head)
    theirs: Any = getattr(transformers, kind.theirs).from_pretrained(tmp_path)
    assert torch.equal(theirs.get_output_embeddings().weight, head)
    model, count = kind.read(tmp_path)
    hidden = torch.randn(3, tokens.shape[1], generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model.logits(hidden), hidden @ head.t(), atol=1e-4, rtol=1e-4)
    assert count == sum(p.numel() for p in theirs.parameters())


def test_a_copy_of_the_embeddings_is_none(kind: Kind, tmp_path: Path) -> None:
    kind.build(tmp_path)
    alone = kind.read(tmp_path)[1]
    tokens = load_file(tmp_path / "model.safetensors")[kind.embeddings]
    store(tmp_path, kind.head, tokens.clone())
    model, count = kind.read(tmp_path)
    assert count == alone
    hidden = torch.randn(3, tokens.shape[1], generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model.logits(hidden), hidden @ tokens.t(), atol=1e-4, rtol=1e-4)

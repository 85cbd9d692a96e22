"""Runners of small random checkpoints on the device, and ways to carry out their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine import runners
from tests.engine.recording import RecordedMemory, Recorder, make_opaque
from tests.gpu.conftest import IS_DRY
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl
from tools.random_checkpoints.whisper import build_random_whisper


class Way(NamedTuple):
    """How steps are carried out. overlap: as `EngineCore` has it."""

    graphs: bool
    overlap: int

    def on(self, device: torch.device) -> Acceleration:
        if IS_DRY:
            backend = Recorder() if self.graphs else None
            return Acceleration(bool(self.overlap), RecordedMemory(), backend)
        return Acceleration.on(device, graphs=self.graphs, overlaps=bool(self.overlap))


EAGER = Way(graphs=False, overlap=0)
OTHERS = (Way(False, 1), Way(True, 0), Way(True, 1))


def prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a dry run: graphs are recorded tensor operations, see `tests.engine.recording`."""
    if IS_DRY:
        make_opaque(monkeypatch, *runners.MODELS)


def load_asr(folder: Path, device: torch.device) -> Qwen3AsrModel:
    build_served_qwen3_asr(folder, seed=5)
    return Qwen3AsrModel.from_folder(folder, device=device)


def load_vl(folder: Path, device: torch.device) -> Qwen3VLModel:
    build_random_qwen3_vl(folder, seed=5)
    return Qwen3VLModel.from_folder(folder, device=device)


def load_whisper(folder: Path, device: torch.device) -> tuple[WhisperModel, WhisperTokenizer]:
    build_random_whisper(folder, layers=2, width=32, heads=2, seed=3)
    model = WhisperModel.from_folder(folder, device=device)
    return model, WhisperTokenizer.from_folder(folder)


def paged_runner(model: Any, way: Way, parts: int = 1) -> PagedRunner:
    return runners.paged_runner(model, way.on(model.decoder.device), parts=parts)


def whisper_runner(model: WhisperModel, tokenizer: WhisperTokenizer, way: Way) -> WhisperRunner:
    return runners.whisper_runner(model, tokenizer, way.on(model.device))

"""Runners of small random checkpoints on the device, and ways to carry out their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import engine.models.audio_encoder
import engine.models.qwen3
import engine.models.vision_encoder
import engine.models.whisper
from engine.acceleration import Acceleration
from engine.audio_graphs import AudioGraphs
from engine.models.qwen3_asr import Qwen3AsrModel
from engine.models.qwen3_vl import Qwen3VLModel
from engine.models.whisper import WhisperModel
from engine.paged_runner import MediaEncoder, PagedRunner
from engine.tokenizer import WhisperTokenizer
from engine.vision_graphs import VisionGraphs
from engine.whisper_runner import WhisperRunner
from tests.checkpoints import build_random_whisper
from tests.checkpoints_qwen import build_served_qwen3_asr
from tests.checkpoints_vl import build_random_qwen3_vl
from tests.engine.recording import RecordedMemory, Recorder, make_opaque
from tests.gpu.conftest import IS_DRY

ROWS = 6
MODELS = (
    engine.models.audio_encoder,
    engine.models.qwen3,
    engine.models.vision_encoder,
    engine.models.whisper,
)


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
        make_opaque(monkeypatch, *MODELS)


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
    acceleration = way.on(model.decoder.device)
    encoder: MediaEncoder | None = None
    if way.graphs:
        is_asr = isinstance(model, Qwen3AsrModel)
        encoder = AudioGraphs(model, acceleration) if is_asr else VisionGraphs(model, acceleration)
    runner = PagedRunner(
        model,
        max_rows=ROWS,
        num_blocks=160,
        max_context=480,
        encoder_bytes=2**20,
        media_parts=parts,
        media_encoder=encoder,
        acceleration=acceleration,
    )
    for layer in runner._cache.layers:  # nothing unwritten may be read, padding's blocks neither
        layer.fill_(torch.nan)
    runner.capture(lambda share: None)
    return runner


def whisper_runner(model: WhisperModel, tokenizer: WhisperTokenizer, way: Way) -> WhisperRunner:
    runner = WhisperRunner(
        model,
        tokenizer,
        ROWS,
        windows=[32_000, 48_000],
        acceleration=way.on(model.device),
    )
    runner._self_cache.data.fill_(torch.nan)
    runner._cross_cache.data.fill_(torch.nan)
    runner.capture(lambda share: None)
    return runner

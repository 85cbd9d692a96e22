"""Runners of small random checkpoints, with a cache in which nothing unwritten may be read."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from lookhear.engine.core.request import Phase, Result
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.models import audio_chunks, audio_encoder, qwen3, vision_encoder
from lookhear.engine.models.audio_graphs import AudioGraphs
from lookhear.engine.models.omni_graphs import OmniGraphs
from lookhear.engine.models.qwen3 import Qwen3ChatModel
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel
from lookhear.engine.models.vision_graphs import VisionGraphs
from lookhear.engine.paged.media import MediaEncoder
from lookhear.engine.paged.request import PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.smolvlm import encoder as crop_encoder
from lookhear.engine.smolvlm.graphs import crop_graphs
from lookhear.engine.smolvlm.model import SmolVlmModel
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.voxtral_chat.graphs import window_graphs
from lookhear.engine.voxtral_chat.model import VoxtralChatModel
from lookhear.engine.whisper import model as whisper
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner

ROWS = 6
# What `make_opaque` is told: who calls operations inside of captured regions.
MODELS: tuple[ModuleType, ...] = (
    qwen3,
    audio_chunks,
    audio_encoder,
    vision_encoder,
    crop_encoder,
    whisper,
)


def quiet(share: float) -> None:
    """Listens to the progress of capturing."""
    assert 0.0 <= share <= 1.0


def paged_runner(
    model: Any,
    acceleration: Acceleration = CPU,
    *,
    parts: int = 1,
    rows: int = ROWS,
    num_blocks: int = 160,
) -> PagedRunner:
    """Of a Qwen3-ASR, -VL or -Omni, a SmolVLM or a Voxtral, its graphs captured if there are any.
    parts: of a medium's embedding."""
    encoder: MediaEncoder | None = None
    if acceleration.backend is not None:
        if isinstance(model, Qwen3ChatModel):
            pass  # it sees nothing
        elif isinstance(model, Qwen3AsrModel):
            encoder = AudioGraphs(model, acceleration)
        elif isinstance(model, Qwen3OmniModel):
            encoder = OmniGraphs(model, acceleration)
        elif isinstance(model, SmolVlmModel):
            encoder = crop_graphs(model, acceleration)
        elif isinstance(model, VoxtralChatModel):
            encoder = window_graphs(model, acceleration)
        else:
            encoder = VisionGraphs(model, acceleration)
    runner = PagedRunner(
        model,
        max_rows=rows,
        num_blocks=num_blocks,
        max_context=480,
        encoder_bytes=2**20,
        media_parts=parts,
        media_encoder=encoder,
        acceleration=acceleration,
    )
    for layer in runner.cache.layers:  # padding's blocks neither
        layer.fill_(torch.nan)
    runner.capture(quiet)
    return runner


def whisper_runner(
    model: WhisperModel, tokenizer: WhisperTokenizer, acceleration: Acceleration = CPU
) -> WhisperRunner:
    """Graphs are captured for windows of two and of three seconds."""
    runner = WhisperRunner(
        model, tokenizer, ROWS, windows=[32_000, 48_000], acceleration=acceleration
    )
    runner._self_cache.data.fill_(torch.nan)
    runner._cross_cache.data.fill_(torch.nan)
    runner.capture(quiet)
    return runner


def finish(
    runner: PagedRunner, sequences: list[PagedSequence], chunk: int = 10_000
) -> dict[str, Result]:
    """Run to the end, prompts in chunks; release all."""
    results: dict[str, Result] = {}
    running = list(sequences)
    for _ in range(2_000):
        work = []
        for sequence in running:
            demand = sequence.demand()
            if not demand.waiting:
                work.append((sequence, min(chunk, demand.known + demand.draft)))
        failures = runner.launch(work)()
        assert not failures, failures
        for sequence in [s for s in running if s.phase is Phase.DONE]:
            results[sequence.key] = sequence.result()
            runner.release(sequence)
            running.remove(sequence)
        runner.check(len(running))
        if not running:
            return results
    raise AssertionError("it never ends")

"""Parakeet: hears a recording as a whole, fast; live, what was said is told at a pause."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, chosen_dtype, half_decoder
from lookhear.engine.families.parts.sound import read_sound
from lookhear.engine.families.parts.speech import speech_parts, warn_of_idle
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models import frames
from lookhear.engine.parakeet.model import ParakeetModel
from lookhear.engine.parakeet.sound import WholeSound
from lookhear.engine.parakeet.transcriber import parakeet_transcriber
from lookhear.engine.speech.live_config import Evidence, LiveConfig
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.runner import TransducerRunner

PIECE_SECONDS = 30.0  # that are heard at once; cut in pauses
PAUSE_SECONDS = 0.7  # within a turn, at which what was said is told


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    warn_of_idle(config)
    emphasis, rounding = read_sound(folder)
    dtype = chosen_dtype(config.dtype, device, folder)
    half = dtype == torch.float32 and half_decoder(config.dtype, device, folder)
    model = ParakeetModel.from_folder(
        folder, half=half, dtype=dtype, device=device, progress=progress
    )
    pause = round(PAUSE_SECONDS * SAMPLE_RATE)
    live = LiveConfig(
        tick=SAMPLE_RATE,
        long_pause=pause,
        evidence=(Evidence(-math.inf, pause),),
        max_samples=round(config.max_audio_seconds * SAMPLE_RATE),
    )
    sound = WholeSound(emphasis, round(PIECE_SECONDS * SAMPLE_RATE))
    tokenizer = PieceTokenizer.from_folder(folder, model.dims.vocab)
    transcriber = parakeet_transcriber(TransducerRecognizer(tokenizer, sound), sound, live)
    filters = frames.frame_filters(model.dims.encoder.num_mels, rounding, model.device)
    runner = TransducerRunner(model, filters, [1])
    num = model.num_parameters
    return speech_parts(config, transcriber, runner, num, model.dtype, sound.cap, device)


FAMILY = Family(
    name="Parakeet",
    architectures=("ParakeetForTDT", "ParakeetForRNNT", "ParakeetForCTC"),
    build=build,
    abilities=("transcribe",),
    card_rows=64,
)

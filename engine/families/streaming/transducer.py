"""Nemotron ASR: transducers that hear a recording chunk by chunk, and stand by what they wrote."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, chosen_dtype, half_decoder
from lookhear.engine.families.parts.sound import read_sound
from lookhear.engine.families.parts.speech import speech_parts, warn_of_idle
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models import frames
from lookhear.engine.speech.live_config import Evidence, LiveConfig
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from lookhear.engine.transducer.dims import TransducerDims
from lookhear.engine.transducer.languages import Languages
from lookhear.engine.transducer.model import TransducerModel
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.runner import TransducerRunner
from lookhear.engine.transducer.sound import MOST_SECONDS, Sound
from lookhear.engine.transducer.transcriber import transducer_transcriber

PIECE_SECONDS = 30.0  # of a file, each a recording of its own; cut in pauses
# What those that are published were trained on, where a folder says nothing.
LOOKAHEADS = (13, 6, 1, 0)


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    warn_of_idle(config)
    emphasis, rounding = read_sound(folder)
    dtype = chosen_dtype(config.dtype, device, folder)
    # A chunk is a few rows. Beside bfloat16 it would be a copy, for fewer rows still.
    half = dtype == torch.float32 and half_decoder(config.dtype, device, folder)
    model = TransducerModel.from_folder(
        folder, half=half, dtype=dtype, device=device, progress=progress
    )
    dims = model.dims
    sound = read_lookaheads(folder, dims, emphasis)
    tokenizer = PieceTokenizer.from_folder(folder, dims.vocab)
    chunk = round((sound.usual + 1) * sound.place * SAMPLE_RATE)
    live = LiveConfig(
        # A word waits until its chunk is complete, and no longer.
        tick=chunk,
        evidence=(Evidence(-math.inf, 0),),
        max_samples=round(config.max_audio_seconds * SAMPLE_RATE),
    )
    piece = round(PIECE_SECONDS * SAMPLE_RATE)
    longest = max(piece, round(MOST_SECONDS * SAMPLE_RATE)) + chunk
    languages = Languages.read(folder, dims.prompts, tokenizer.spelt)
    recognizer = TransducerRecognizer(tokenizer, sound, languages)
    transcriber = transducer_transcriber(recognizer, sound, live, piece)
    filters = frames.frame_filters(dims.encoder.num_mels, rounding, model.device)
    runner = TransducerRunner(model, filters, sound.chunks)
    num = model.num_parameters
    return speech_parts(config, transcriber, runner, num, model.dtype, longest, device)


def read_lookaheads(folder: Path, dims: TransducerDims, emphasis: float) -> Sound:
    """How far ahead a checkpoint may be made to hear, as its processor says. Raises
    `CheckpointError`."""
    path = folder / "processor_config.json"
    told = read_json(path, required=False)
    key = "supported_num_lookahead_tokens"
    known = told.get(key) or sorted({dims.lookahead, *LOOKAHEADS})
    most = dims.encoder.left
    if not isinstance(known, list) or not all(type(n) is int and 0 <= n < most for n in known):
        raise CheckpointError.of(path, key, f"whole numbers below {most}", known)
    usual = told.get("default_num_lookahead_tokens", dims.lookahead)
    if usual not in known:
        raise CheckpointError.of(path, "default_num_lookahead_tokens", f"one of {known}", usual)
    return Sound(emphasis, dims.encoder.stack, tuple(sorted(set(known))), usual)


FAMILY = Family(
    name="Nemotron-ASR",
    architectures=("NemotronAsrStreamingForRNNT", "Nemotron3_5AsrForRNNT"),
    build=build,
    abilities=("transcribe",),
    # Each remembers 7 MB of who speaks, in bfloat16.
    card_rows=64,
)

"""Voxtral Realtime: writes a token with every 80 ms that it hears, and stands by what it wrote."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json, section
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, chosen_dtype, half_decoder
from lookhear.engine.families.parts.speech import speech_parts, warn_of_idle
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.speech.live_config import Evidence, LiveConfig
from lookhear.engine.tokenizers.tekken import TekkenTokenizer
from lookhear.engine.voxtral.dims import StackDims, VoxtralDims
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.recognizer import VoxtralRecognizer, voxtral_transcriber
from lookhear.engine.voxtral.request import Marks
from lookhear.engine.voxtral.runner import ENCODED, VoxtralRunner
from lookhear.engine.voxtral.sound import HOP, STEP, WINDOW, Sound

PIECE_SECONDS = 30.0  # of a file, each a recording of its own; cut in pauses
LOUDEST = 1.5  # decades; what its own feature extractor says, where a folder says nothing


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    warn_of_idle(config)
    dtype = chosen_dtype(config.dtype, device, folder)
    # A step is a row of each session.
    half = half_decoder(config.dtype, device, folder)
    model = VoxtralModel.from_folder(
        folder, half=half, dtype=dtype, device=device, progress=progress
    )
    tokenizer, sound, marks = read_sound(folder, model.dims)
    live = LiveConfig(
        # A word waits for its delay, and no longer.
        tick=STEP,
        evidence=(Evidence(-math.inf, sound.delay * STEP),),
        max_samples=round(config.max_audio_seconds * SAMPLE_RATE),
    )
    piece = round(PIECE_SECONDS * SAMPLE_RATE)
    recognizer = VoxtralRecognizer(tokenizer, sound)
    transcriber = voxtral_transcriber(recognizer, sound, live, piece)
    loudest = read_loudest(folder, model.dims)
    runner = VoxtralRunner(model, marks, loudest, num_blocks(config, model))
    num, longest = model.num_parameters, recognizer.cost(0, piece, 0).encoder
    return speech_parts(config, transcriber, runner, num, model.dtype, longest, device)


def read_sound(folder: Path, dims: VoxtralDims) -> tuple[TekkenTokenizer, Sound, Marks]:
    """What tekken.json says: text, silence around it, and tokens that are no text. Raises
    `CheckpointError`."""
    path = folder / "tekken.json"
    tokenizer = TekkenTokenizer.from_folder(folder, dims.vocab)
    told = section(read_json(path), "audio", path)
    inner = section(told, "audio_encoding_config", path)
    expected: list[tuple[dict[str, Any], str, object]] = [
        (told, "sampling_rate", SAMPLE_RATE),
        (told, "frame_rate", SAMPLE_RATE / STEP),
        (told, "transcription_format", "streaming"),
        (inner, "num_mel_bins", dims.num_mels),
        (inner, "hop_length", HOP),
        (inner, "window_size", WINDOW),
    ]
    for values, key, wanted in expected:
        if (got := values.get(key)) != wanted:
            raise CheckpointError.of(path, key, repr(wanted), got)
    if dims.frames * HOP != STEP:
        source = folder / "config.json"
        raise CheckpointError.of(source, "audio_length_per_tok", str(STEP // HOP), dims.frames)
    left = told.get("streaming_n_left_pad_tokens")
    if type(left) is not int or left < 1:
        key = "streaming_n_left_pad_tokens"
        raise CheckpointError.of(path, key, "a whole number >= 1", left)
    delay = told.get("transcription_delay_ms")
    step = 1000 * STEP // SAMPLE_RATE
    if not isinstance(delay, int | float) or delay <= 0 or delay % step:
        raise CheckpointError.of(path, "transcription_delay_ms", f"a multiple of {step}", delay)
    marks = Marks(
        begin=tokenizer.token("<s>"),
        pad=tokenizer.token("[STREAMING_PAD]"),
        word=tokenizer.token("[STREAMING_WORD]"),
        end=tokenizer.token("</s>"),
    )
    return tokenizer, Sound(left, round(delay / step)), marks


def read_loudest(folder: Path, dims: VoxtralDims) -> float:
    """Decades, as its feature extractor has them. Raises `CheckpointError`."""
    path = folder / "processor_config.json"
    told = read_json(path, required=False).get("feature_extractor", {})
    usual = {"feature_size": dims.num_mels, "sampling_rate": SAMPLE_RATE, "hop_length": HOP}
    for key, wanted in {**usual, "n_fft": WINDOW, "win_length": WINDOW}.items():
        if (got := told.get(key, wanted)) != wanted:
            raise CheckpointError.of(path, key, str(wanted), got)
    loudest = told.get("global_log_mel_max", LOUDEST)
    if isinstance(loudest, bool) or not isinstance(loudest, int | float):
        raise CheckpointError.of(path, "global_log_mel_max", "a number", loudest)
    return float(loudest)


def num_blocks(config: EngineConfig, model: VoxtralModel) -> tuple[int, int]:
    """Of the encoder's and the decoder's cache: half of the memory for each, no more than are of
    use, and room for what runs at once in any case. Those who speak for long see less of what was
    said where that is little; see `Windows`."""
    dims, element = model.dims, torch.empty(0, dtype=model.dtype).element_size()
    held = config.max_live_turns + config.max_rows  # recordings

    def of(stack: StackDims, new: int) -> int:
        size = 2 * BLOCK_TOKENS * stack.layers * stack.kv_heads * stack.head_dim * element
        affordable = int(config.kv_cache_gigabytes * 2**30 / 2) // size
        least = config.max_rows * (2 + new // BLOCK_TOKENS)
        useful = held * (2 + (stack.window + new) // BLOCK_TOKENS)
        return 1 + max(least, min(useful, affordable))

    return of(dims.audio, ENCODED * dims.places), of(dims.text, 2 * BLOCK_TOKENS)


FAMILY = Family(
    name="Voxtral-Realtime",
    architectures=("VoxtralRealtimeForConditionalGeneration",),
    build=build,
    abilities=("transcribe",),
    # Of the published one each remembers 0.2 GB for its encoder, in bfloat16.
    card_rows=64,
)

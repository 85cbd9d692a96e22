"""Qwen3-ASR: an audio encoder and a Qwen3 decoder on a paged cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import (
    Family,
    Parts,
    ServingRunner,
    acceleration_of,
    beside_linears,
    cache_dtype,
    chosen_dtype,
    half_decoder,
    linear_dtype,
)
from lookhear.engine.families.parts.adapting import adapters_of, with_adapters
from lookhear.engine.families.parts.capacity import num_blocks
from lookhear.engine.families.parts.speech import Caution, live_config, speech_parts
from lookhear.engine.families.qwen3_aligner import alone, is_aligner, with_word_times
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.audio_graphs import AudioGraphs
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.qwen3_asr.alignment import ALIGNED_LANGUAGES
from lookhear.engine.qwen3_asr.file import asr_transcriber
from lookhear.engine.qwen3_asr.prompt import LANGUAGES, language_code
from lookhear.engine.qwen3_asr.recognizer import AsrConfig
from lookhear.engine.tokenizers.qwen import QwenTokenizer

# An open segment is cut at this many seconds, where the checkpoint says nothing.
SEGMENT_SECONDS = 48.0
# Of a context, what is kept free of audio: for prompt and header, and for text as fast as it comes.
PROMPT_TOKENS = 64
TEXT_TOKENS_PER_SECOND = 10
# What it hears in a few syllables is often wrong twice alike, but seldom with certainty.
CAUTION = Caution(evidence=0.75, doubt=0.25, shares=((0.5, 0.0), (0.0, 1.0)))
ENCODER_CACHE_BYTES = 64 * 2**20  # at least


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    if is_aligner(folder):  # in its original form it names this architecture
        raise alone(folder)
    linears = linear_dtype(config.dtype, device)
    dtype = beside_linears(linears) or chosen_dtype(config.dtype, device, folder)
    # A small decoder reads more tokens than it writes: float32 is as fast there.
    half = dtype == torch.bfloat16 and half_decoder(config.dtype, device, folder)
    model = Qwen3AsrModel.from_folder(
        folder, dtype=dtype, half=half, linears=linears, device=device, progress=progress
    )
    model.decoder.cache_dtype = cache_dtype(config, model.decoder.dtype)
    traits = Traits.from_folder(folder)
    context = min(config.max_context_tokens, model.decoder.dims.context)
    cap = config.max_segment_seconds or traits.longest_window_seconds or SEGMENT_SECONDS
    cap = _fitting(cap, context, model)
    # A second less leaves room for the search for a quiet place; from half of it on, a pause is a
    # good place to begin anew.
    live = live_config(config, traits, CAUTION, cap=max(2.0, cap - 1.0), roll=cap / 2)
    acceleration = acceleration_of(config, device)
    # Without closed windows, which is for comparison, everything is encoded eagerly.
    by_device = acceleration.backend is not None and config.freeze_windows
    tokenizer = QwenTokenizer.from_folder(folder)
    adapters = adapters_of(config, model.decoder, model.encoder, model.tower)
    asr = AsrConfig(
        tokenizer,
        model.encoder.dims,
        config.freeze_windows,
        by_device,
        bool(config.aligner),
        adapters,
    )
    paged = PagedRunner(
        model,
        max_rows=config.max_rows,
        num_blocks=_num_blocks(config, model, cap, context),
        max_context=context,
        encoder_bytes=_encoder_bytes(config, model),
        media_encoder=AudioGraphs(model, acceleration, config.max_live_turns)
        if by_device
        else None,
        acceleration=acceleration,
        adapters=adapters,
    )
    runner: ServingRunner = paged
    if config.aligner:
        runner = with_word_times(paged, tokenizer, config, device, progress)
    cap_samples = round(cap * SAMPLE_RATE)
    transcriber = asr_transcriber(asr, live, _spoken(folder), cap_samples)
    longest = cap_samples + SAMPLE_RATE
    kept = linears or dtype
    parts = speech_parts(config, transcriber, runner, model.num_parameters, kept, longest, device)
    parts = with_adapters(parts, adapters)
    return replace(parts, timed_languages=list(ALIGNED_LANGUAGES) if config.aligner else [])


def _fitting(cap: float, context: int, model: Qwen3AsrModel) -> float:
    """The longest segment, at most cap seconds, that leaves room for the prompt and its text."""
    per_second = model.encoder.dims.num_tokens(100) + TEXT_TOKENS_PER_SECOND
    room = (context - PROMPT_TOKENS) / per_second
    if room < 4.0:
        raise CheckpointError(
            f"max_context_tokens: expected room for 4 s of speech at least "
            f"({PROMPT_TOKENS + 4 * per_second} tokens), got {context}"
        )
    return min(cap, room)


def _num_blocks(config: EngineConfig, model: Qwen3AsrModel, cap: float, context: int) -> int:
    """A segment for every request that runs and every turn that is open, and one request as long as
    they may be; see `num_blocks`."""
    per_second = model.encoder.dims.num_tokens(100) + TEXT_TOKENS_PER_SECOND
    segment = math.ceil((PROMPT_TOKENS + cap * per_second) / BLOCK_TOKENS)
    longest = math.ceil(context / BLOCK_TOKENS)
    useful = longest + (config.max_rows + config.max_live_turns) * segment
    return num_blocks(config, model.decoder, longest=longest, useful=useful)


def _encoder_bytes(config: EngineConfig, model: Qwen3AsrModel) -> int:
    """For the embeddings of the last closed window of every open turn, and of those closed before
    until they are forgotten: of a closed window, the tokens of the last block are read anew in
    every tick, and without them the whole window would be encoded for that, also in every tick."""
    dims = model.encoder.dims
    element = torch.empty(0, dtype=model.encoder.dtype).element_size()
    window = dims.num_tokens(dims.window_frames) * dims.out_width * element
    return max(ENCODER_CACHE_BYTES, config.max_live_turns * window * 3 // 2)


def _spoken(folder: Path) -> list[str]:
    """ISO codes of the languages a checkpoint names, else all that its family was trained for."""
    named = read_json(folder / "config.json").get("support_languages")
    codes = [language_code(str(name)) for name in named] if isinstance(named, list) else []
    return sorted(code for code in codes if code) or sorted(LANGUAGES)


FAMILY = Family(
    name="Qwen3-ASR",
    architectures=("Qwen3ASRForConditionalGeneration",),
    build=build,
    rounds_cache=True,
    abilities=("transcribe", "adapters"),
    takes_aligner=True,
)

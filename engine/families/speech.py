"""Checkpoints that transcribe: their runners, caches and windows, sized by a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.owner import WindowRule
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.families.parts import Parts, ServingRunner, chosen_dtype, half_decoder
from lookhear.engine.families.registry import load_model
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.audio_graphs import AudioGraphs
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_asr_prompt import LANGUAGES, language_code
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.speech.asr import AsrConfig
from lookhear.engine.speech.desk import SpeechDesk
from lookhear.engine.speech.family import AsrFamily, Family, WhisperFamily
from lookhear.engine.speech.live import LiveConfig
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.prompt import Prompter
from lookhear.engine.whisper.runner import WhisperRunner

# Seconds of audio encoded in one step at most: running decodes wait no longer than that takes.
ENCODER_BUDGET_SECONDS = 32
GPU_ENCODER_BUDGET_SECONDS = 128  # four windows of 30 s and some
MAX_CARRIED = 64  # tokens of earlier text in a prompt
# An open segment of Qwen3-ASR is cut at this many seconds, where the checkpoint says nothing.
ASR_SEGMENT_SECONDS = 48.0
# Of a context, what is kept free of audio: for prompt and header, and for text as fast as it comes.
PROMPT_TOKENS = 64
TEXT_TOKENS_PER_SECOND = 10
# What Qwen3-ASR hears in a few syllables is often wrong twice alike, but seldom with certainty.
ASR_PROBABILITY = 0.5
MAX_CAPTURED_WINDOWS = 32  # of Whisper's encoder
ENCODER_CACHE_BYTES = 64 * 2**20  # at least


def _live_config(config: EngineConfig, cap: float, roll: float, probability: float) -> LiveConfig:
    """cap, roll: seconds, as in `LiveConfig`. probability: to be committed, by default."""
    seconds = SAMPLE_RATE
    if config.commit_probability is not None:
        probability = config.commit_probability
    return LiveConfig(
        tick=round(config.tick_seconds * seconds),
        cap=round(cap * seconds),
        roll=round(roll * seconds),
        max_samples=round(config.max_audio_seconds * seconds),
        agreeing_ticks=config.agreeing_ticks,
        held_words=config.held_words,
        least_logprob=math.log(probability) if probability > 0 else -math.inf,
        draft=config.draft_verification,
    )


def _parts(
    config: EngineConfig,
    family: Family,
    runner: ServingRunner,
    num_parameters: int,
    dtype: torch.dtype,
    longest: int,
    device: str,
) -> Parts:
    """longest: samples that one request may have encoded."""
    budget = ENCODER_BUDGET_SECONDS if device == "cpu" else GPU_ENCODER_BUDGET_SECONDS
    return Parts(
        desk=SpeechDesk(config.name, family, config.max_live_turns),
        runner=runner,
        num_parameters=num_parameters,
        dtype=dtype,
        encoder_budget=max(longest, budget * SAMPLE_RATE),
        abilities=["transcribe", *(["translate"] if family.translates else [])],
        languages=family.languages,
        has_word_times=family.has_word_times,
    )


# --- Whisper -------------------------------------------------------------------------------------


def build_whisper(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    dtype = chosen_dtype(config.dtype, device)
    model = load_model(folder, dtype=dtype, device=device, progress=progress)
    tokenizer = WhisperTokenizer.from_folder(folder)
    traits = Traits.from_folder(folder)
    prompter = Prompter(tokenizer, MAX_CARRIED, MAX_CARRIED if traits.carries_text else 0)
    longest = model.dims.audio_positions * SAMPLE_RATE // 50  # 50 encoder positions a second
    window = _window_rule(config, traits, longest)
    # An open segment may grow by the search for a quiet place before it is cut.
    room = (window.longest - LiveConfig().search) / SAMPLE_RATE - 1
    live = _live_config(config, min(config.max_segment_seconds or 14.0, room), 0.0, 0.0)
    family = WhisperFamily(prompter, live, window)
    runner = WhisperRunner(
        model,
        tokenizer,
        config.max_rows,
        windows=_windows(window),
        acceleration=Acceleration.of(config, device),
    )
    return _parts(config, family, runner, model.num_parameters, dtype, longest, device)


def _window_rule(config: EngineConfig, traits: Traits, longest: int) -> WindowRule:
    """Short windows only where they were asked for, or the checkpoint was trained for them.

    longest: samples of the window that the checkpoint was published with.
    """
    margin = SAMPLE_RATE // 5
    is_short = config.window == "short" or (config.window == "auto" and traits.short_windows)
    if not is_short:
        return WindowRule(step=longest, shortest=longest, longest=longest, margin=margin)
    if traits.longest_window_seconds is not None:
        longest = min(longest, round(traits.longest_window_seconds * SAMPLE_RATE))
    step = min(longest, round(config.window_step_seconds * SAMPLE_RATE))
    shortest = min(longest, round(config.min_window_seconds * SAMPLE_RATE))
    return WindowRule(step=step, shortest=shortest, longest=longest, margin=margin)


def _windows(rule: WindowRule) -> list[int]:
    """All lengths that a window may have, if they are few enough to capture a graph for each."""
    count = rule.longest // rule.step
    if count > MAX_CAPTURED_WINDOWS:
        return []
    return sorted({rule.window(steps * rule.step) for steps in range(count + 1)})


# --- Qwen3-ASR -----------------------------------------------------------------------------------


def build_qwen3_asr(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    dtype = chosen_dtype(config.dtype, device, folder)
    # A small decoder reads more tokens than it writes: float32 is as fast there.
    half = dtype == torch.bfloat16 and half_decoder(config.dtype, device, folder)
    model = Qwen3AsrModel.from_folder(
        folder, dtype=dtype, half=half, device=device, progress=progress
    )
    traits = Traits.from_folder(folder)
    context = min(config.max_context_tokens, model.decoder.dims.context)
    cap = config.max_segment_seconds or traits.longest_window_seconds or ASR_SEGMENT_SECONDS
    cap = _fitting(cap, context, model)
    # A second less leaves room for the search for a quiet place; from half of it on, a pause is a
    # good place to begin anew.
    live = _live_config(config, max(2.0, cap - 1.0), cap / 2, ASR_PROBABILITY)
    asr = AsrConfig(QwenTokenizer.from_folder(folder), model.encoder.dims, config.freeze_windows)
    acceleration = Acceleration.of(config, device)
    runner = PagedRunner(
        model,
        max_rows=config.max_rows,
        num_blocks=_num_blocks(config, model, cap, context),
        max_context=context,
        encoder_bytes=_encoder_bytes(config, model),
        media_encoder=AudioGraphs(model, acceleration) if acceleration.backend else None,
        acceleration=acceleration,
    )
    cap_samples = round(cap * SAMPLE_RATE)
    family = AsrFamily(asr, live, _spoken(folder), cap_samples)
    longest = cap_samples + SAMPLE_RATE
    return _parts(config, family, runner, model.num_parameters, dtype, longest, device)


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
    """As many as the memory allows, but no more than can be of use: a segment for every request
    that runs and every turn that is open, and one request as long as they may be."""
    dims = model.decoder.dims
    element = torch.empty(0, dtype=model.decoder.dtype).element_size()
    block_bytes = 2 * BLOCK_TOKENS * dims.layers * dims.kv_heads * dims.head_dim * element
    per_second = model.encoder.dims.num_tokens(100) + TEXT_TOKENS_PER_SECOND
    segment = math.ceil((PROMPT_TOKENS + cap * per_second) / BLOCK_TOKENS)
    longest = math.ceil(context / BLOCK_TOKENS)
    useful = longest + (config.max_rows + config.max_live_turns) * segment
    return 1 + max(longest, min(useful, int(config.kv_cache_gigabytes * 2**30) // block_bytes))


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

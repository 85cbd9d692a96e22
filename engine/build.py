"""From a configuration to a running core: find the checkpoint, load it, size caches and windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.messages import SAMPLE_RATE
from engine.models.hub import resolve_checkpoint
from engine.models.registry import architecture_of, load_model
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.sessions.live import LiveConfig
from engine.sessions.policy import WindowRule
from engine.sessions.prompt import Prompter
from engine.tokenizer import WhisperTokenizer
from engine.traits import Traits

Progress = Callable[[str, float], None]  # a stage in words, the share of it that is done

# Seconds of audio encoded in one step at most: running decodes wait no longer than that takes.
ENCODER_BUDGET_SECONDS = 32
MAX_CARRIED = 64  # tokens of earlier text in a prompt
# Parameters below which one thread is as fast as several (waiting for each other costs more than
# the work), and leaves the other cores to the gateway.
SMALL_MODEL = 20_000_000


@dataclass(frozen=True, slots=True)
class Built:
    core: EngineCore
    architecture: str
    languages: list[str]
    num_parameters: int
    device: str


def build_core(config: EngineConfig, progress: Progress) -> Built:
    """Load config.model. Raises CheckpointError, OSError or RuntimeError if it cannot be."""
    device = _device(config.device)
    folder = resolve_checkpoint(config.model, progress)
    architecture = architecture_of(folder)
    model = load_model(
        folder,
        dtype=getattr(torch, config.dtype),
        device=device,
        progress=lambda share: progress(f"loading {config.name}", share),
    )
    if config.threads:
        torch.set_num_threads(config.threads)
    elif model.num_parameters < SMALL_MODEL:
        torch.set_num_threads(1)
    tokenizer = WhisperTokenizer.from_folder(folder)
    traits = Traits.from_folder(folder)
    carried = MAX_CARRIED if traits.carries_text else 0
    prompter = Prompter(tokenizer, MAX_CARRIED, carried)
    longest = model.dims.audio_positions * SAMPLE_RATE // 50  # 50 encoder positions a second
    window = _window_rule(config, traits, longest)
    seconds = SAMPLE_RATE
    # An open segment may grow by the search for a quiet place before it is cut.
    room = window.longest - LiveConfig(window).search - seconds
    live = LiveConfig(
        window=window,
        tick=round(config.tick_seconds * seconds),
        cap=min(round(config.max_segment_seconds * seconds), room),
        max_samples=round(config.max_audio_seconds * seconds),
        agreeing_ticks=config.agreeing_ticks,
        held_words=config.held_words,
        draft=config.draft_verification,
    )
    core = EngineCore(
        config.name,
        Runner(model, tokenizer, config.max_rows),
        prompter,
        Scheduler(config.max_rows, max(longest, ENCODER_BUDGET_SECONDS * seconds)),
        live,
        window,
        config.max_live_turns,
    )
    return Built(core, architecture, prompter.languages, model.num_parameters, device)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError(f"device: expected a CUDA device for {name!r}, torch sees none")
    return name


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

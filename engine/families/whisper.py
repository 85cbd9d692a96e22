"""Whisper: every size of openai/whisper, and checkpoints trained for short windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import (
    Family,
    Parts,
    acceleration_of,
    chosen_dtype,
    int8_weights,
)
from lookhear.engine.families.parts.adapting import adapters_of_one, with_adapters
from lookhear.engine.families.parts.speech import Caution, live_config, speech_parts
from lookhear.engine.messages import SAMPLE_RATE, TranscribeFile
from lookhear.engine.speech.earlier import EarlierRule
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.alignment import SAMPLES_PER_POSITION
from lookhear.engine.whisper.drafter import WhisperDrafter, measured_costs
from lookhear.engine.whisper.files.file import WhisperFile
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.runner import WhisperRunner

# Chosen on recordings of people, with tiny.en and base, English and Spanish:
# docs/benchmarks/policies.md.
CAUTION = Caution(
    evidence=0.25, doubt=0.75, shares=((0.98, 0.0), (0.8, 1 / 3), (0.5, 2 / 3), (0.0, 1.0))
)
EARLIER_SECONDS = 14  # of what was said before, heard again with what is said now
SETTLE_SECONDS = 1.5  # of the end of a window, padding included, that is read again in every tick
ROLL_SECONDS = 6.0  # of a segment; beyond it any pause of 0.7 s begins another
MAX_CARRIED = 64  # tokens of earlier text in a prompt
QUICK_SAMPLES = 15 * SAMPLE_RATE  # of a file's window that is heard in one of its own length first
MAX_CAPTURED_WINDOWS = 32  # of the encoder


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    int8 = int8_weights(config.dtype, device, folder)
    dtype = torch.float32 if int8 else chosen_dtype(config.dtype, device)
    model = WhisperModel.from_folder(
        folder,
        dtype=dtype,
        device=device,
        progress=progress,
        half_decoder=config.dtype in ("auto", "int8"),
        int8=int8,
    )
    adapters = adapters_of_one(config, model)
    tokenizer = WhisperTokenizer.from_folder(folder)
    traits = Traits.from_folder(folder)
    prompter = WhisperPrompter(tokenizer, MAX_CARRIED, MAX_CARRIED if traits.carries_text else 0)
    longest = model.dims.audio_positions * SAMPLE_RATE // 50  # 50 encoder positions a second
    is_short = config.window == "short" or (
        config.window == "auto" and (traits.short_windows or device == "cpu")
    )
    # What was never trained to hear less than 30 s is told that the rest is silence.
    pads = is_short and not traits.short_windows
    settles = pads and device == "cpu"  # on a GPU all is read at once
    window = _window_rule(config, traits, longest, is_short=is_short, pads=pads, settles=settles)
    # A file is heard once, and as well as can be: what stands for silence makes a text in a hundred
    # repeat itself, and loses words of long windows. Of short ones it loses nothing that is not
    # doubtful, and they take a third of the time.
    whole, quick = window, None
    if pads:
        whole = WindowRule(step=longest, shortest=longest, longest=longest, margin=window.margin)
        quick = replace(window, longest=min(longest, QUICK_SAMPLES), open=0)
    # Those who learned to hear full windows say timestamps, and hear again what was said before.
    is_whole = pads or not is_short
    live, earlier = _live_policy(config, traits, window, is_whole=is_whole)
    cap = None if is_whole else window.longest - window.margin
    doubts = prompter.doubts(config.alternatives)

    def start_file(message: TranscribeFile, section: Section | None = None) -> WhisperFile:
        return WhisperFile(message, prompter, whole, cap, section, adapters, quick, doubts)

    transcriber = Transcriber(
        live,
        prompter.languages,
        partial(
            WhisperRecognizer,
            prompter,
            window,
            adapters=adapters,
            doubts=doubts,
        ),
        start_file,
        translates=bool(prompter.languages),
        has_word_times=True,
        earlier=earlier,
        adapters=adapters,
    )
    runner = WhisperRunner(
        model,
        tokenizer,
        config.max_rows,
        windows=_windows(window),
        pads=pads,
        acceleration=acceleration_of(config, device),
        adapters=adapters,
    )
    named = torch.int8 if int8 else dtype
    parts = speech_parts(config, transcriber, runner, model.num_parameters, named, longest, device)
    # What has no tokens for languages is English: another one is refused, not written as English.
    parts = replace(with_adapters(parts, adapters), languages=prompter.languages or ["en"])
    if not config.draft_model:
        return parts
    small = _draft_runner(config, model, tokenizer, device, pads=pads)

    def measure(clock: Callable[[], float]) -> None:
        drafter = WhisperDrafter(small)
        drafter.costs = measured_costs(runner, small, tokenizer, clock)
        runner.drafter = drafter

    return replace(parts, measure=measure)


def _live_policy(
    config: EngineConfig, traits: Traits, window: WindowRule, *, is_whole: bool
) -> tuple[LiveConfig, EarlierRule]:
    """How turns are heard, and what is heard again in front of a segment. is_whole: as in full
    windows, with timestamps."""
    # An open segment may grow by the search for a quiet place before it is cut.
    usual = LiveConfig()
    room = (window.longest - usual.search) / SAMPLE_RATE - 1
    if is_whole:  # the longest fits in front of the next one
        half = (window.longest - window.margin) / 2 - usual.search - usual.lead_in
        room = min(room, max(half / SAMPLE_RATE, 2 * ROLL_SECONDS))
    live = live_config(
        config,
        traits,
        replace(CAUTION, doubt=0.0) if traits.short_windows else CAUTION,
        cap=min(config.max_segment_seconds or 14.0, room),
        roll=0.0 if traits.short_windows else ROLL_SECONDS,
    )
    live = replace(live, echoes=True)
    if not is_whole:
        return live, EarlierRule()
    behind = max(0, window.longest - window.margin - live.lead_in - live.cap - 2 * live.search)
    before = min(EARLIER_SECONDS * SAMPLE_RATE, behind)
    return live, EarlierRule(before, before // 2, SAMPLES_PER_POSITION)


def _draft_runner(
    config: EngineConfig,
    large: WhisperModel,
    tokenizer: WhisperTokenizer,
    device: str,
    *,
    pads: bool,
) -> WhisperRunner:
    """Of the smaller model of config.draft. Raises `CheckpointError` if it spells differently."""
    folder = Path(config.draft_model)
    int8 = int8_weights(config.dtype, device, folder)
    small = WhisperModel.from_folder(
        folder,
        dtype=torch.float32 if int8 else chosen_dtype(config.dtype, device),
        device=device,
        half_decoder=config.dtype in ("auto", "int8"),
        int8=int8,
    )
    theirs = WhisperTokenizer.from_folder(folder)
    if small.dims.vocab != large.dims.vocab or not tokenizer.spells_like(theirs):
        raise CheckpointError(f"{folder}: draft: expected the vocabulary of the large model")
    return WhisperRunner(small, theirs, config.max_rows, pads=pads)


def _window_rule(
    config: EngineConfig,
    traits: Traits,
    longest: int,
    *,
    is_short: bool,
    pads: bool,
    settles: bool,
) -> WindowRule:
    """longest: samples of the window that the checkpoint was published with."""
    margin = SAMPLE_RATE // 5
    if not is_short:
        return WindowRule(step=longest, shortest=longest, longest=longest, margin=margin)
    if traits.longest_window_seconds is not None:
        longest = min(longest, round(traits.longest_window_seconds * SAMPLE_RATE))
    seconds = config.window_step_seconds or (0.5 if pads else 2.0)
    step = min(longest, round(seconds * SAMPLE_RATE))
    seconds = config.min_window_seconds or (1.0 if pads else 4.0)
    shortest = min(longest, round(seconds * SAMPLE_RATE))
    seconds = SETTLE_SECONDS if config.settle_seconds is None else config.settle_seconds
    open = round(seconds * SAMPLE_RATE) if settles else 0
    return WindowRule(step=step, shortest=shortest, longest=longest, margin=margin, open=open)


def _windows(rule: WindowRule) -> list[int]:
    """All lengths that a window may have, if they are few enough to capture a graph for each."""
    count = rule.longest // rule.step
    if count > MAX_CAPTURED_WINDOWS:
        return []
    return sorted({rule.window(steps * rule.step) for steps in range(count + 1)})


FAMILY = Family(
    name="Whisper",
    architectures=("WhisperForConditionalGeneration",),
    build=build,
    abilities=("transcribe", "translate", "adapters"),
    # A row of Whisper large has a quarter of a GiB of its own, for 30 s of audio.
    card_rows=64,
    drafted_by=("WhisperForConditionalGeneration",),
)

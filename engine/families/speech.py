"""What families that transcribe have in common: desk, live policy, sized by a configuration."""

from __future__ import annotations

import math

import torch

from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Parts, ServingRunner
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.desk import SpeechDesk
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.transcriber import Transcriber

# Seconds of audio encoded in one step at most: running decodes wait no longer than that takes.
ENCODER_BUDGET_SECONDS = 32
GPU_ENCODER_BUDGET_SECONDS = 128  # four windows of 30 s and some
DOUBT_SECONDS = 0.25  # of evidence that a token wants in addition, of which a model is not sure


def live_config(
    config: EngineConfig, traits: Traits, *, cap: float, roll: float, probability: float
) -> LiveConfig:
    """cap, roll: seconds, as in `LiveConfig`. probability: below which a word is in doubt, by
    default."""
    seconds, evidence = SAMPLE_RATE, config.evidence_seconds
    if evidence is None:
        evidence = traits.evidence_seconds
    if config.commit_probability is not None:
        probability = config.commit_probability
    return LiveConfig(
        tick=round(config.tick_seconds * seconds),
        cap=round(cap * seconds),
        roll=round(roll * seconds),
        max_samples=round(config.max_audio_seconds * seconds),
        evidence=round(evidence * seconds),
        in_doubt=round((evidence + DOUBT_SECONDS) * seconds),
        held_words=config.held_words,
        least_logprob=math.log(probability) if probability > 0 else -math.inf,
        draft=config.draft_verification,
    )


def speech_parts(
    config: EngineConfig,
    transcriber: Transcriber,
    runner: ServingRunner,
    num_parameters: int,
    dtype: torch.dtype,
    longest: int,
    device: str,
) -> Parts:
    """longest: samples that one request may have encoded."""
    budget = ENCODER_BUDGET_SECONDS if device == "cpu" else GPU_ENCODER_BUDGET_SECONDS
    return Parts(
        desk=SpeechDesk(config.name, transcriber, config.max_live_turns),
        runner=runner,
        num_parameters=num_parameters,
        dtype=dtype,
        encoder_budget=max(longest, budget * SAMPLE_RATE),
        lacks=() if transcriber.translates else ("translate",),
        languages=transcriber.languages,
        has_word_times=transcriber.has_word_times,
    )

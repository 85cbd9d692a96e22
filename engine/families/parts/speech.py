"""What families that transcribe have in common: desk, live policy, sized by a configuration."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import torch

from lookhear.engine.admission.admission import Admission
from lookhear.engine.admission.lag import LagModel
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Parts, ServingRunner
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.desk import SpeechDesk
from lookhear.engine.speech.live_config import Evidence, LiveConfig
from lookhear.engine.speech.transcriber import Transcriber

log = logging.getLogger(__name__)

# What a word waits for outside the engine: packets, the voice detector, sockets on both sides, and
# ticks at the ends of turns, which go before others. By `lookhear bench overload`.
OUTSIDE_SECONDS = 0.2
# Seconds of audio encoded in one step at most: running decodes wait no longer than that takes.
ENCODER_BUDGET_SECONDS = 32
GPU_ENCODER_BUDGET_SECONDS = 128  # four windows of 30 s and some


@dataclass(frozen=True, slots=True)
class Caution:
    """What a word wants to be committed while somebody speaks, by default. evidence: seconds of
    audio during which it was heard alike. doubt: more of them, at most. shares: of the doubt, for
    tokens of at least that probability: (probability, share), the last for all."""

    evidence: float
    doubt: float
    shares: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        assert self.shares[-1] == (0.0, 1.0), self.shares


def live_config(
    config: EngineConfig, traits: Traits, caution: Caution, *, cap: float, roll: float
) -> LiveConfig:
    """cap, roll: seconds, as in `LiveConfig`."""

    def first(*given: float | None) -> float:
        return next(value for value in given if value is not None)

    seconds = SAMPLE_RATE
    evidence = first(config.evidence_seconds, traits.evidence_seconds, caution.evidence)
    doubt = first(config.doubt_seconds, caution.doubt)
    return LiveConfig(
        tick=round(config.tick_seconds * seconds),
        cap=round(cap * seconds),
        roll=round(roll * seconds),
        max_samples=round(config.max_audio_seconds * seconds),
        evidence=tuple(
            Evidence(
                math.log(least) if least > 0 else -math.inf,
                round((evidence + share * doubt) * seconds),
            )
            for least, share in caution.shares
        ),
        held_words=config.held_words,
        draft=config.draft_verification,
    )


def warn_of_idle(config: EngineConfig) -> None:
    """Of settings that say when a word is sure, for a model that never takes one back."""
    for setting in ("evidence_seconds", "doubt_seconds", "max_segment_seconds"):
        if getattr(config, setting):
            log.warning("%s: %s has no use for it: what it wrote stands", setting, config.name)


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
    admission = _admission(config, transcriber.live, queues=device == "cpu")
    return Parts(
        desk=SpeechDesk(config.name, transcriber, config.max_live_turns, admission),
        admission=admission,
        runner=runner,
        num_parameters=num_parameters,
        dtype=dtype,
        encoder_budget=max(longest, budget * SAMPLE_RATE),
        lacks=() if transcriber.translates else ("translate",),
        languages=transcriber.languages,
        has_word_times=transcriber.has_word_times,
    )


def _admission(config: EngineConfig, live: LiveConfig, *, queues: bool) -> Admission:
    """queues: a processor gains little by working on many ticks at once."""
    evidence = OUTSIDE_SECONDS + live.most_evidence / SAMPLE_RATE
    interval = live.tick / SAMPLE_RATE
    lag = LagModel(evidence, interval, config.max_rows, queues)
    return Admission(config.max_lag_seconds or math.inf, lag)

"""Nemotron-3-Diarization: says who speaks when, for another model's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.config import EngineConfig
from lookhear.engine.diarisation import frames
from lookhear.engine.diarisation.desk import DiarisationDesk
from lookhear.engine.diarisation.runner import DiarisationRunner
from lookhear.engine.diarisation.speaker_cache import read_rules
from lookhear.engine.families.family import Family, Parts, chosen_dtype
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.nemotron3_diarisation import DiarisationModel

# What these models' own processors say, where a folder says nothing.
SOUND: dict[str, Any] = {
    "sampling_rate": SAMPLE_RATE,
    "hop_length": frames.HOP,
    "n_fft": frames.FFT_SIZE,
    "win_length": frames.WINDOW,
}
EMPHASIS = 0.97


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    emphasis, rounding = read_sound(folder)
    path = folder / "config.json"
    rules, chunking = read_rules(read_json(path), path)
    dtype = chosen_dtype(config.dtype, device, folder)
    model = DiarisationModel.from_folder(folder, dtype=dtype, device=device, progress=progress)
    if rules.speakers != model.dims.speakers:
        got = rules.speakers
        raise CheckpointError.of(path, "num_speakers", f"{model.dims.speakers} in both", got)
    filters = frames.frame_filters(model.dims.num_mels, rounding, torch.device(device))
    longest = (chunking.behind + chunking.chunk + chunking.ahead) * model.dims.stack * frames.HOP
    return Parts(
        desk=DiarisationDesk(config.name, chunking, model.dims.stack, emphasis),
        runner=DiarisationRunner(model, rules, filters),
        num_parameters=model.num_parameters,
        dtype=dtype,
        encoder_budget=longest,
    )


def read_sound(folder: Path) -> tuple[float, torch.dtype]:
    """How it hears: emphasis of high pitches, and the precision of its filters. Raises
    `CheckpointError`."""
    sound: dict[str, Any] = {}
    for name in ("processor_config.json", "preprocessor_config.json"):
        path = folder / name
        found = read_json(path, required=False)
        found = found.get("feature_extractor", found)
        if isinstance(found, dict) and found:
            sound = found
            break
    for key, expected in SOUND.items():
        if (got := sound.get(key, expected)) != expected:
            raise CheckpointError.of(path, key, str(expected), got)
    emphasis = sound.get("preemphasis", EMPHASIS)
    if isinstance(emphasis, bool) or not isinstance(emphasis, int | float):
        raise CheckpointError.of(path, "preemphasis", "a number", emphasis)
    rounding = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if (name := sound.get("mel_filters_dtype", "float32")) not in rounding:
        raise CheckpointError.of(path, "mel_filters_dtype", " or ".join(rounding), name)
    return float(emphasis), rounding[name]


FAMILY = Family(
    name="Nemotron-3-Diarization",
    architectures=("Nemotron3DiarizationForAudioFrameClassification",),
    build=build,
    abilities=("diarise",),
)

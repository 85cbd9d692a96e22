"""How NVIDIA's models hear, as their folders say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models import frames

# What these models' own processors say, where a folder says nothing.
SOUND: dict[str, Any] = {
    "sampling_rate": SAMPLE_RATE,
    "hop_length": frames.HOP,
    "n_fft": frames.FFT_SIZE,
    "win_length": frames.WINDOW,
}
EMPHASIS = 0.97


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

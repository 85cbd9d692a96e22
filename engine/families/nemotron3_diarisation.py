"""Nemotron-3-Diarization: says who speaks when, for another model's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.config import EngineConfig
from lookhear.engine.diarisation.desk import DiarisationDesk
from lookhear.engine.diarisation.runner import DiarisationRunner
from lookhear.engine.diarisation.speaker_cache import read_live_chunking, read_rules
from lookhear.engine.families.family import Family, Parts, chosen_dtype
from lookhear.engine.families.parts.sound import read_sound
from lookhear.engine.models import frames
from lookhear.engine.models.nemotron3_diarisation import DiarisationModel

# Places of a live chunk, and ahead of it, by its model card (`low_latency`): who speaks is known
# some 0.3 to 1 s later.
LIVE = (9, 4)


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    emphasis, rounding = read_sound(folder)
    path = folder / "config.json"
    rules, chunking = read_rules(read_json(path), path)
    live = read_live_chunking(read_json(path), path, LIVE)
    dtype = chosen_dtype(config.dtype, device, folder)
    model = DiarisationModel.from_folder(folder, dtype=dtype, device=device, progress=progress)
    if rules.speakers != model.dims.speakers:
        got = rules.speakers
        raise CheckpointError.of(path, "num_speakers", f"{model.dims.speakers} in both", got)
    filters = frames.frame_filters(model.dims.num_mels, rounding, torch.device(device))
    longest = (chunking.behind + chunking.chunk + chunking.ahead) * model.dims.stack * frames.HOP
    return Parts(
        desk=DiarisationDesk(config.name, chunking, live, model.dims.stack, emphasis),
        runner=DiarisationRunner(model, rules, filters),
        num_parameters=model.num_parameters,
        dtype=dtype,
        encoder_budget=longest,
    )


FAMILY = Family(
    name="Nemotron-3-Diarization",
    architectures=("Nemotron3DiarizationForAudioFrameClassification",),
    build=build,
    abilities=("diarise",),
)

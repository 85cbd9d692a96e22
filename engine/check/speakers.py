"""A diariser at work on a recording, and beside transformers'."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.check.parity import Parity, transformers_class
from lookhear.engine.check.trial import TrialFailed
from lookhear.engine.checkpoints.loader import read_json
from lookhear.engine.core.core import EngineCore
from lookhear.engine.diarisation.speaker_cache import SpeakerCache, read_rules
from lookhear.engine.families.parts.sound import read_sound
from lookhear.engine.messages import (
    SAMPLE_RATE,
    DiariseFile,
    FileDiarised,
    FileFailed,
    SpeakerTurn,
)
from lookhear.engine.models import frames
from lookhear.engine.models.nemotron3_diarisation import DiarisationModel


def diarise(
    core: EngineCore, model: str, samples: NDArray[np.float32]
) -> tuple[list[SpeakerTurn], float]:
    """Who speaks when, and the seconds that took. Raises TrialFailed."""
    began = time.perf_counter()
    core.submit(DiariseFile("check", model, samples))
    while core.has_work:
        for event in core.step():
            if isinstance(event, FileDiarised):
                return event.turns, time.perf_counter() - began
            if isinstance(event, FileFailed):
                raise TrialFailed(event.message)
    raise AssertionError("a file is answered")


@torch.inference_mode()
def scored(folder: Path, samples: NDArray[np.float32]) -> Tensor:
    """Ours, of a whole recording in float32: [frames, speakers] logits."""
    emphasis, rounding = read_sound(folder)
    path = folder / "config.json"
    rules, cut = read_rules(read_json(path), path)
    model = DiarisationModel.from_folder(folder)
    count, stack = frames.num_frames(len(samples)), model.dims.stack
    filters = frames.frame_filters(model.dims.num_mels, rounding, model.device)
    stretch = torch.from_numpy(frames.stretch(samples, 0, count, emphasis=emphasis))
    places = model.embed(frames.log_mel_frames(stretch, filters))
    cache = SpeakerCache(rules, cut, model.weights.silence, stack)
    found = []
    for first in range(0, len(places), cut.chunk):
        end, begin = min(first + cut.chunk, len(places)), max(first - cut.behind, 0)
        remembered = cache.places
        read = torch.cat([remembered, places[begin : end + cut.ahead]])
        logits = model.score(read)
        cache.update(read, logits, first - begin, end - first)
        at = (len(remembered) + first - begin) * stack
        found.append(logits[at : at + (end - first) * stack])
    return torch.cat(found)[:count]


def compare_diariser(folder: Path, samples: NDArray[np.float32]) -> Parity:
    """Of every frame, whether each speaks. Raises NotCompared, CheckpointError."""
    kind = transformers_class("Nemotron3DiarizationForAudioFrameClassification")
    processor = transformers_class("AutoProcessor").from_pretrained(folder)
    inputs = processor(samples, sampling_rate=SAMPLE_RATE, return_tensors="pt")
    with torch.inference_mode():
        model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        theirs: Tensor = model(**inputs).logits[0]
    ours = scored(folder, samples)
    # Behind a whole last place theirs has one of padding, which it looks at.
    count = len(ours) - (8 if len(ours) % 8 == 0 else 0)
    theirs, ours = theirs[:count], ours[:count]
    same = int(((theirs > 0) == (ours > 0)).sum())
    return Parity(ours.numel(), same, float((theirs - ours).abs().max()), "answers")

"""A Voxtral Realtime and transformers': what each writes with every step of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.check.parity import SECONDS, Parity, transformers_class
from lookhear.engine.core.request import Priority
from lookhear.engine.families.streaming.voxtral_realtime import read_loudest, read_sound
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.request import Marks
from lookhear.engine.voxtral.sound import Sound
from lookhear.engine.voxtral.stack import Delays, batch_of
from lookhear.engine.voxtral.windows import Windows
from lookhear.kernels import mel_filters
from lookhear.kernels.log_mel import log10_mel, normalised

STEPS = 160  # of which logits are compared, one by one
PIECE = 16  # steps that ours reads at once


@torch.inference_mode()
def compare_voxtral(folder: Path, architecture: str, samples: NDArray[np.float32]) -> Parity:
    """Tokens that either writes with the first steps, "nothing" among them, while it is told what
    transformers' wrote. Ours hears the recording piece by piece. Raises NotCompared,
    CheckpointError."""
    kind = transformers_class(architecture)
    ours = VoxtralModel.from_folder(folder)
    _, sound, marks = read_sound(folder, ours.dims)
    heard = sound.whole("", Priority.BATCH, samples[: SECONDS * SAMPLE_RATE], sound.delay)
    steps = min(heard.steps, STEPS)
    decades = log10_mel(torch.from_numpy(heard.stretch)[None], mel_filters(ours.dims.num_mels))
    mel = normalised(decades, read_loudest(folder, ours.dims))[..., : steps * ours.dims.frames]
    del ours  # room for theirs, and then for ours again
    tokens, theirs = _their_logits(folder, kind, mel, sound, marks)
    found = _our_logits(VoxtralModel.from_folder(folder), mel[0].t(), tokens, sound)
    first = sound.left + sound.delay  # what is written in front of it was told
    theirs, found = theirs[first:], found[first:]
    same = int((theirs.argmax(1) == found.argmax(1)).sum())
    return Parity(len(found), same, float((theirs - found).abs().max()), "steps' tokens")


def _their_logits(
    folder: Path, kind: Any, mel: Tensor, sound: Sound, marks: Marks
) -> tuple[Tensor, Tensor]:
    """What it read with each step, [steps], and thinks behind it, [steps, vocab]."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    told = torch.tensor([[marks.begin] + [marks.pad] * (sound.left + sound.delay)])
    tokens = model.generate(
        input_ids=told,
        input_features=mel,
        num_delay_tokens=sound.delay,
        do_sample=False,
        eos_token_id=-1,  # the first of them have no end
        max_new_tokens=mel.shape[2] // model.config.audio_length_per_tok - told.shape[1],
    )
    logits = model(
        input_ids=tokens, input_features=mel, num_delay_tokens=sound.delay, use_cache=False
    ).logits[0]
    return tokens[0], logits


def _our_logits(model: VoxtralModel, frames: Tensor, tokens: Tensor, sound: Sound) -> Tensor:
    """Behind each step, told the same tokens."""
    dims, blocks = model.dims, 2 + len(frames) // 2 // 16  # a place is two frames
    stacks = (model.encoder.stack, model.decoder.stack)
    windows = [Windows(blocks, stack.dims.window) for stack in stacks]
    caches = [stack.new_cache(blocks) for stack in stacks]
    lanes = [own.begin() for own in windows]
    state, scales, found = model.encoder.begin(), model.decoder.scales(sound.delay)[None], []
    parts = torch.split(frames, PIECE * dims.frames)
    for part, read in zip(parts, torch.split(tokens, PIECE), strict=True):
        (places,), (state,) = model.encoder.join([state], part[None])
        work = [[(lanes[0], len(places))], [(lanes[1], len(read))]]
        batches = [
            batch_of(own.place(new), model.device) for own, new in zip(windows, work, strict=True)
        ]
        steps = model.encoder.encode([places], batches[0], caches[0])
        delays = Delays(scales, torch.zeros(len(read), dtype=torch.int64))
        hidden = model.decoder.forward(read, steps, delays, batches[1], caches[1])
        found.append(model.decoder.logits(hidden))
        for own, new in zip(windows, work, strict=True):
            own.move(new)
    return torch.cat(found)

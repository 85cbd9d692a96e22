"""Sounds as the encoder's convolutions want them: chunks of log-mel, many windows' in one launch.

windows -> their samples, somewhere -> chunks of a second -> log-mel, each normalised by the
loudest value of its segment up to the window's end
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.staging import Integers
from lookhear.engine.paged.sound import HOP, Sound
from lookhear.kernels import log_mel_chunks, mel_filters
from lookhear.kernels.log_mel import QUIETEST, log10_mel, normalised


def num_chunks(frames: int, size: int) -> int:
    """size: frames of a chunk."""
    return -(-frames // size)


def chunk_integers(
    sounds: Sequence[Sound], begins: Sequence[int], size: int, total: int
) -> dict[str, Integers]:
    """What `log_mel_chunks` has to know of them, [total] each, padding included; before: the bits
    of float32 numbers. begins: where the samples of each are. How loud it was before a sound must
    be known, or that one be among them, in front of it."""
    starts: list[int] = []
    frames: list[int] = []
    firsts: list[int] = []
    lasts: list[int] = []
    before: list[float] = []
    at: dict[int, tuple[int, float]] = {}  # of a sound: its segment's first chunk, and before that
    for sound, begin in zip(sounds, begins, strict=True):
        own = len(starts)
        first, loud = own, QUIETEST
        if sound.before is not None:
            known = sound.before.loudest
            first, loud = at[id(sound.before)] if known is None else (own, known)
        at[id(sound)] = first, loud
        count = num_chunks(sound.frames, size)
        starts += range(begin, begin + count * size * HOP, size * HOP)
        frames += [size] * (count - 1)
        frames.append(sound.frames - (count - 1) * size)
        firsts += [first] * count
        lasts += [own + count - 1] * count
        before += [loud] * count
    padding = [0] * (total - len(starts))
    return {
        "starts": np.array(starts + padding, np.int64),
        "frames": np.array(frames + padding, np.int64),
        "heard": np.array([firsts + padding, lasts + padding], np.int64),
        "before": np.array(before + padding, np.float32).view(np.int32).astype(np.int64),
    }


def log_mel_of(
    samples: Tensor, fields: Mapping[str, Tensor], filters: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """fields: of `chunk_integers`, where samples are. See `log_mel_chunks`."""
    before = fields["before"].to(torch.int32).view(torch.float32)
    return log_mel_chunks(
        samples, fields["starts"], fields["frames"], fields["heard"], before, filters, size
    )


@cache
def host_filters(mels: int) -> Tensor:
    """The filter bank for little at a time on the host: sparse."""
    with torch.inference_mode(False):  # of use everywhere
        return mel_filters(mels).to_sparse()


def loudest(sound: Sound, mels: int) -> float:
    """Decades up to its end, found out here where the device was not asked: seldom."""
    if sound.loudest is None:
        before = QUIETEST if sound.before is None else loudest(sound.before, mels)
        sound.loudest = max(before, float(_decades(sound, mels).max()))
    return sound.loudest


def host_log_mel(sound: Sound, mels: int) -> Tensor:
    """[mels, frames], computed here."""
    return normalised(_decades(sound, mels), loudest(sound, mels))


def _decades(sound: Sound, mels: int) -> Tensor:
    samples = np.empty(sound.length, np.float32)
    sound.write(samples)
    return log10_mel(torch.from_numpy(samples)[None], host_filters(mels))[0]

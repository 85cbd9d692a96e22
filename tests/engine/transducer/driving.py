"""Recordings for a transducer, fed to it whole or in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.core.request import Phase, Priority, Result
from lookhear.engine.core.runner import Finish
from lookhear.engine.models.frames import frame_filters
from lookhear.engine.transducer.model import TransducerModel
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.runner import TransducerRunner
from lookhear.engine.transducer.sound import Feed, Sound

TOLERANCE = 1e-4
SOUND = Sound(0.97, 8, (0, 1, 3), 3)


def sound(seed: int, count: int) -> np.ndarray:
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 0.1
    return drawn.numpy()


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def a_runner(model: TransducerModel) -> TransducerRunner:
    mels = model.dims.encoder.num_mels
    return TransducerRunner(model, frame_filters(mels, torch.float32, model.device), SOUND.chunks)


def whole(key: str, samples: np.ndarray, ahead: int, sounds: Sound = SOUND) -> TransducerRequest:
    feed = Feed(sounds, ahead + 1)
    feed.append(samples)
    return feed.take(key, Priority.BATCH, feed.remaining, is_last=True)


def in_pieces(
    key: str, samples: np.ndarray, ahead: int, sizes: Sequence[int], sounds: Sound = SOUND
) -> list[TransducerRequest]:
    """As a turn hears it whose samples come in pieces of these sizes, again and again."""
    feed, asked, at, turn = Feed(sounds, ahead + 1), list[TransducerRequest](), 0, 0
    while at < len(samples):
        size = sizes[turn % len(sizes)]
        feed.append(samples[at : at + size])
        at, turn = at + size, turn + 1
        while count := feed.ready:
            asked.append(feed.take(key, Priority.LIVE, count, is_last=False))
    asked.append(feed.take(key, Priority.LIVE, feed.remaining, is_last=True))
    return asked


def run(
    runner: TransducerRunner, *recordings: Sequence[TransducerRequest], ahead: bool = False
) -> list[list[Result]]:
    """All side by side, each its requests one after another. ahead: others' steps are launched
    before one was read."""
    waiting = [list(requests) for requests in recordings]
    heard: list[list[Result]] = [[] for _ in recordings]
    launched: list[tuple[Finish, list[int]]] = []
    busy: set[int] = set()
    turn = 0

    def read() -> None:
        finish, indices = launched.pop(0)
        assert finish() == []
        for index in indices:
            sequence = placed.pop(index)
            assert sequence.phase is Phase.DONE
            heard[index].append(sequence.result())
            runner.release(sequence)
        busy.difference_update(indices)

    placed = {}
    while any(waiting) or launched:
        turn += 1
        free = [i for i, left in enumerate(waiting) if left and i not in busy]
        if ahead:  # half of them in each step
            free = [i for i in free if i % 2 == turn % 2] or free
        if free:
            for index in free:
                placed[index] = runner.place(waiting[index].pop(0))
            launched.append((runner.launch([(placed[index], 1) for index in free]), free))
            busy.update(free)
        if not ahead or len(launched) > 1 or not free:
            read()
    return heard


def text(results: Sequence[Result]) -> list[int]:
    return [token for result in results for token in result.tokens]


def times(results: Sequence[Result]) -> list[tuple[float, float]]:
    return [span for result in results for span in result.token_times or ()]

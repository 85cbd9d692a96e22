"""Recordings for a Voxtral, fed to it whole or in pieces, and what transformers makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.core.request import Phase, Priority, Result
from lookhear.engine.core.runner import Finish
from lookhear.engine.paged.cache import PagedBatch
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.request import Marks, VoxtralRequest
from lookhear.engine.voxtral.runner import VoxtralRunner
from lookhear.engine.voxtral.sound import STEP, Feed, Sound
from lookhear.engine.voxtral.stack import batch_of
from lookhear.engine.voxtral.windows import Window, Windows
from tools.random_checkpoints.voxtral import DELAY, LEFT

TOLERANCE = 1e-4
SOUND = Sound(LEFT, DELAY)
MARKS = Marks(begin=1, pad=32, word=33, end=2)
BLOCKS = (200, 200)


def sound(seed: int, count: int) -> np.ndarray:
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 0.1
    return drawn.numpy()


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def their_mel(samples: np.ndarray, delay: int, mels: int) -> Tensor:
    """[1, mels, frames], the silence around it included."""
    from transformers import VoxtralRealtimeFeatureExtractor

    steps = -(-len(samples) // STEP)
    padded = np.zeros((LEFT + steps + delay + 1 + 10) * STEP, np.float32)
    padded[LEFT * STEP : LEFT * STEP + len(samples)] = samples
    extractor: Any = VoxtralRealtimeFeatureExtractor(feature_size=mels)
    found: Tensor = extractor(padded, sampling_rate=16_000, return_tensors="pt").input_features
    return found


def their_tokens(theirs: Any, samples: np.ndarray, delay: int) -> list[int]:
    """What `generate` writes, all that is no text included."""
    mel = their_mel(samples, delay, theirs.config.audio_config.num_mel_bins)
    prompt = torch.tensor([[MARKS.begin] + [MARKS.pad] * (LEFT + delay)])
    out = theirs.generate(
        input_ids=prompt,
        input_features=mel,
        num_delay_tokens=delay,
        do_sample=False,
        max_new_tokens=mel.shape[2] // 8 - prompt.shape[1],
    )
    found: list[int] = out[0, prompt.shape[1] :].tolist()
    return found


def a_runner(model: VoxtralModel, blocks: tuple[int, int] = BLOCKS) -> VoxtralRunner:
    return VoxtralRunner(model, MARKS, 1.5, blocks)


def whole(key: str, samples: np.ndarray, delay: int = DELAY) -> VoxtralRequest:
    return SOUND.whole(key, Priority.BATCH, samples, delay)


def in_pieces(
    key: str, samples: np.ndarray, sizes: Sequence[int], delay: int = DELAY
) -> list[VoxtralRequest]:
    """As a turn hears it whose samples come in pieces of these sizes, again and again."""
    feed, asked, at, turn = Feed(SOUND, delay), list[VoxtralRequest](), 0, 0
    while at < len(samples):
        size = sizes[turn % len(sizes)]
        feed.append(samples[at : at + size])
        at, turn = at + size, turn + 1
        while count := feed.ready:
            asked.append(feed.take(key, Priority.LIVE, count, is_last=False))
    assert feed.is_short
    asked.append(feed.take(key, Priority.LIVE, feed.remaining, is_last=True))
    return asked


def run(
    runner: VoxtralRunner,
    *recordings: Sequence[VoxtralRequest],
    ahead: bool = False,
    chunk: int = 1000,
    written: list[list[int]] | None = None,
) -> list[list[Result]]:
    """All side by side, each its requests one after another. ahead: a step is launched before the
    one in front was read. chunk: steps that are read at once, at most. written: gets all tokens."""
    waiting = [list(requests) for requests in recordings]
    heard: list[list[Result]] = [[] for _ in recordings]
    placed: dict[int, Any] = {}
    launched: list[tuple[Finish, list[int]]] = []
    turn = 0

    def read() -> None:
        finish, indices = launched.pop(0)
        assert finish() == []
        for index in indices:
            sequence = placed[index]
            if written is not None and _writes(sequence):
                written[index].append(sequence.writing.token)
            if sequence.phase is Phase.DONE:
                heard[index].append(sequence.result())
                runner.release(placed.pop(index))
        runner.check(len(placed))

    while any(waiting) or placed:
        turn += 1
        for index, left in enumerate(waiting):
            if left and index not in placed:
                placed[index] = runner.place(left.pop(0))
        ready = [i for i, one in placed.items() if not one.demand().waiting]
        if ahead:  # half of them in each step
            ready = [i for i in ready if i % 2 == turn % 2] or ready
        if ready:
            work = [(placed[i], min(chunk, placed[i].demand().known)) for i in ready]
            launched.append((runner.launch(work), ready))
        if not ahead or len(launched) > 1 or not ready:
            read()
    assert not launched
    return heard


def _writes(sequence: Any) -> bool:
    request = sequence.request
    return bool(request.begin + sequence.fed > request.left + request.delay)


def text(results: Sequence[Result]) -> list[int]:
    return [token for result in results for token in result.tokens]


def times(results: Sequence[Result]) -> list[tuple[float, float]]:
    return [span for result in results for span in result.token_times or ()]


def silent(token: int) -> bool:
    return token in (MARKS.pad, MARKS.word, MARKS.end)


class Lane:
    """Tokens of one recording after another, in a cache of its own."""

    def __init__(self, size: int, blocks: int = 60) -> None:
        self.windows = Windows(blocks, size)
        self.window: Window = self.windows.begin()

    def batch(self, count: int) -> PagedBatch:
        return batch_of(self.windows.place([(self.window, count)]), torch.device("cpu"))

    def move(self, count: int) -> None:
        self.windows.move([(self.window, count)])
        self.windows.check()

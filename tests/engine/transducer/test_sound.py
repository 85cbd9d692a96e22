"""Frames that are handed out chunk by chunk are those of the whole recording, however its samples
come; what is kept of it stays short."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Priority
from lookhear.engine.messages import SAMPLE_RATE, Delay
from lookhear.engine.models.frames import FFT_SIZE, HOP
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.sound import MOST_SECONDS, Feed, Sound
from tests.engine.transducer.driving import in_pieces, sound, whole

STACK = 8


def windows(requests: list[TransducerRequest]) -> torch.Tensor:
    """[frames, 512] samples that each log-mel frame is made of."""
    heard = [r for r in requests if r.frames]
    return torch.cat([torch.from_numpy(r.stretch).unfold(0, FFT_SIZE, HOP) for r in heard])


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(160, 40_000),
    ahead=st.sampled_from([0, 1, 3]),
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=5),
)
def test_frames_are_those_of_the_whole(count: int, ahead: int, sizes: list[int]) -> None:
    if max(sizes) < 100:
        sizes = [100 * size for size in sizes]  # the same with fewer steps
    samples = sound(7, count)
    (all_of_it,) = [whole("a", samples, ahead)]
    pieces = in_pieces("a", samples, ahead, sizes)
    assert all_of_it.frames == sum(piece.frames for piece in pieces) == count // 160
    assert torch.equal(windows(pieces), windows([all_of_it]))
    assert [piece.is_first for piece in pieces if piece.frames] == [
        index == 0 for index in range(sum(piece.frames > 0 for piece in pieces))
    ]
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    chunk = STACK * (ahead + 1)
    heard = 0
    for piece in pieces[:-1]:
        heard += piece.frames
        assert (heard + STACK - 1) % chunk == 0  # whole chunks
        assert piece.frames * 160 <= MOST_SECONDS * SAMPLE_RATE + chunk * 160


def test_it_forgets_what_nobody_reads() -> None:
    feed = Feed(Sound(0.97, STACK, (0,), 0), 1)
    rng = np.random.default_rng(0)
    for _ in range(400):
        feed.append(rng.normal(size=1600).astype(np.float32))
        while count := feed.ready:
            feed.take("a", Priority.LIVE, count, is_last=False)
        assert len(feed.rest()) < STACK * 160 + 600
        assert feed.num_samples - feed.heard == len(feed.rest())
        assert len(feed._audio) < STACK * 160 + 1000


@pytest.mark.parametrize(
    ("delay", "places"),
    [(None, 7), ("minimal", 1), ("low", 2), ("medium", 7), ("high", 14), ("xhigh", 14)],
)
def test_who_waits_longer_is_heard_further_ahead(delay: Delay | None, places: int) -> None:
    sounds = Sound(0.97, STACK, (0, 1, 6, 13), 6)
    assert sounds.chunk(delay) == places
    assert sounds.chunks == [1, 2, 7, 14] and sounds.place == pytest.approx(0.08)

"""Steps that are handed out as they come are those of the whole recording, however its samples
come; what is kept of it stays short."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Priority
from lookhear.engine.messages import Delay
from lookhear.engine.voxtral.request import VoxtralRequest
from lookhear.engine.voxtral.sound import HOP, MOST_STEPS, STEP, WINDOW, Feed, Sound
from tests.engine.voxtral.driving import SOUND, in_pieces, sound, whole
from tools.random_checkpoints.voxtral import LEFT


def windows(requests: list[VoxtralRequest]) -> torch.Tensor:
    """[frames, 400] samples that each log-mel frame is made of."""
    return torch.cat([torch.from_numpy(r.stretch).unfold(0, WINDOW, HOP) for r in requests])


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 40_000),
    delay=st.sampled_from([1, 6, 30]),
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=5),
)
def test_steps_are_those_of_the_whole(count: int, delay: int, sizes: list[int]) -> None:
    if max(sizes) < 100:
        sizes = [100 * size for size in sizes]  # the same with fewer steps
    samples = sound(7, count)
    all_of_it = whole("a", samples, delay)
    pieces = in_pieces("a", samples, sizes, delay)
    assert all_of_it.steps == sum(piece.steps for piece in pieces)
    assert all_of_it.steps == LEFT + -(-count // STEP) + delay + 10
    assert torch.equal(windows(pieces), windows([all_of_it]))
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    at = 0
    for piece in pieces:
        assert piece.begin == at and 0 < piece.steps <= MOST_STEPS
        at += piece.steps


def test_it_forgets_what_nobody_reads() -> None:
    feed = Feed(Sound(LEFT, 6), 6)
    rng = np.random.default_rng(0)
    for _ in range(400):
        feed.append(rng.normal(size=1600).astype(np.float32))
        while count := feed.ready:
            feed.take("a", Priority.LIVE, count, is_last=False)
        assert len(feed.rest()) < STEP + WINDOW
        assert feed.num_samples - feed.heard == len(feed.rest())
        assert feed.heard - feed.written in (0, feed.heard, 6 * STEP)
        assert len(feed._audio) < STEP + 2 * WINDOW


def test_what_comes_behind_the_last_of_it_is_another_recording() -> None:
    feed, samples = Feed(SOUND, 6), sound(3, 9000)
    feed.append(samples[:5000])
    feed.take("a", Priority.LIVE, feed.remaining, is_last=True)
    for start in (5000, 7000):
        feed.append(samples[start : start + 2000])
        assert feed.heard == feed.written == 5000
        assert feed.ready == feed.remaining == 0
        assert np.array_equal(feed.rest(), samples[5000 : start + 2000])


def test_silence_without_a_recording_is_not_heard() -> None:
    feed = Feed(SOUND, 6)
    assert feed.ready == feed.remaining == 0
    feed.append(sound(0, 100))
    assert feed.ready == LEFT  # what is in front is known
    feed = Feed(SOUND, 6)
    feed.append(sound(0, 39))
    assert feed.ready == LEFT - 1  # but for its end, which hears what comes


@pytest.mark.parametrize(
    ("delay", "steps"),
    [(None, 6), ("minimal", 2), ("low", 3), ("medium", 6), ("high", 12), ("xhigh", 30)],
)
def test_who_waits_longer(delay: Delay | None, steps: int) -> None:
    assert Sound(32, 6).steps(delay) == steps

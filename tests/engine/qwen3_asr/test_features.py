"""Features of growing audio equal those of the whole, however it grows."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear import kernels
from lookhear.engine.qwen3_asr.features import GrowingLogMel


def clip(seed: int, length: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    loudness = np.repeat(rng.uniform(0.001, 0.5, -(-length // 800)), 800)[:length]
    return (rng.normal(size=length) * loudness).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(201, 9000), min_size=1, max_size=6))
def test_growing_equals_whole(seed: int, pieces: list[int]) -> None:
    samples = clip(seed, sum(pieces))
    growing, end = GrowingLogMel(80), 0
    for piece in pieces:
        end += piece
        before = growing.num_final
        frozen = growing.read(0, before, 0.0) if before else None
        growing.update(samples[:end])
        if frozen is not None:
            np.testing.assert_array_equal(growing.read(0, before, 0.0), frozen)
        whole = kernels.log_mel(torch.from_numpy(samples[None, :end]), kernels.mel_filters(80))[0]
        assert growing.num_frames == whole.shape[1]
        mine = growing.read(0, growing.num_frames, growing.loudest())
        np.testing.assert_allclose(mine, whole.numpy(), atol=2e-5)


def test_all_but_the_frames_at_the_edge_are_final() -> None:
    growing = GrowingLogMel(128)
    growing.update(clip(0, 1600))
    assert (growing.num_frames, growing.num_final) == (10, 9)
    growing.update(clip(0, 1639))
    assert (growing.num_frames, growing.num_final) == (10, 9)
    growing.update(clip(0, 1640))
    assert (growing.num_frames, growing.num_final) == (10, 10)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), st.data())
def test_what_was_dropped_and_is_cut_into_is_computed_again(seed: int, data: st.DataObject) -> None:
    """Windows of 20 frames, closed as they fill, of audio that grows and is cut at any place."""
    samples, window = clip(seed, 40_000), 20
    growing, end, closed = GrowingLogMel(80), 0, 0
    for _ in range(data.draw(st.integers(1, 6))):
        if end and data.draw(st.booleans()):
            end = data.draw(st.integers(max(201, end // 2), max(201, end)))
            known = (end - 200) // 160 + 1
            if known < growing.num_final:
                closed = min(closed, known // window)
                growing.cut(known, closed * window)
        else:
            end = min(len(samples), end + data.draw(st.integers(201, 9000)))
        growing.update(samples[:end])
        while (closed + 1) * window <= growing.num_final:
            closed += 1
            growing.drop(closed * window)
        whole = GrowingLogMel(80)
        whole.update(samples[:end])
        assert (growing.num_frames, growing.num_final) == (whole.num_frames, whole.num_final)
        loudest = whole.loudest()
        assert abs(growing.loudest() - loudest) < 1e-5
        mine = growing.read(closed * window, growing.num_frames, loudest)
        rest = whole.read(closed * window, whole.num_frames, loudest)
        np.testing.assert_allclose(mine, rest, atol=2e-5)

"""Which frames are chosen: invariants and hand-made cases."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.media.base import MediaError
from lookhear.media.pictures.sampling import FrameSampling, choose_frames

TIMES = [i / 10 for i in range(40)]  # 4 s at 10 frames per second


def test_by_rate() -> None:
    assert choose_frames(TIMES, 4.0, FrameSampling(fps=2)) == [0, 5, 10, 15, 20, 25, 30, 35]
    assert choose_frames(TIMES, 4.0, FrameSampling(fps=10)) == list(range(40))
    assert choose_frames(TIMES, 4.0, FrameSampling(fps=25)) == list(range(40))
    assert choose_frames(TIMES, 4.0, FrameSampling(fps=0.01)) == [0]
    assert choose_frames(TIMES, 4.0, FrameSampling(fps=10, max_frames=4)) == [0, 13, 26, 39]


def test_by_rate_takes_what_is_on_display() -> None:
    # A camera that stalled: one frame stays for two seconds and is given once.
    assert choose_frames([0.0, 0.4, 2.6, 3.0], 3.5, FrameSampling(fps=1)) == [0, 1, 3]
    # Matroska rounds to milliseconds: 1/3 s is stored as 0.333.
    thirds = [round(i / 3, 3) for i in range(9)]
    assert choose_frames(thirds, 3.0, FrameSampling(fps=3)) == list(range(9))
    assert choose_frames(thirds, 3.0, FrameSampling(fps=1)) == [0, 3, 6]


def test_by_count() -> None:
    assert choose_frames(TIMES, 4.0, FrameSampling(count=4)) == [0, 13, 26, 39]
    assert choose_frames(TIMES, 4.0, FrameSampling(count=1)) == [19]
    assert choose_frames(TIMES[:3], 0.3, FrameSampling(count=32)) == [0, 1, 2]
    assert choose_frames(TIMES, 4.0, FrameSampling()) == list(range(40))


def test_by_indices() -> None:
    assert choose_frames(TIMES, 4.0, FrameSampling(indices=(0, 7, 39))) == [0, 7, 39]
    with pytest.raises(MediaError) as caught:
        choose_frames(TIMES, 4.0, FrameSampling(indices=(0, 40)))
    assert caught.value.reason == "too_short"
    assert "expected a video with a frame 40, counted from 0; got one of 40" in str(caught.value)


def test_a_gap_of_years_costs_no_memory() -> None:
    assert choose_frames([0.0, 1e9], 2e9, FrameSampling(fps=1000))[0] == 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"fps": 1, "count": 2}, "expected one of fps, count and indices; got fps and count"),
        ({"fps": 0}, "fps: expected more than 0"),
        ({"fps": float("nan")}, "fps: expected more than 0"),
        ({"count": 0}, "count: expected 1 to 768 frames; got 0"),
        ({"count": 769}, "count: expected 1 to 768 frames; got 769"),
        ({"indices": ()}, "indices: expected 1 to 768 of them; got 0"),
        ({"indices": (3, 3)}, "each larger than the last"),
        ({"indices": (-1, 3)}, "frame numbers from 0"),
        ({"max_frames": 0}, "max_frames: expected at least 1; got 0"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FrameSampling(**options)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=60, unique=True).map(sorted),
    st.one_of(
        st.builds(FrameSampling, fps=st.floats(0.01, 100), max_frames=st.integers(1, 50)),
        st.builds(FrameSampling, count=st.integers(1, 50), max_frames=st.just(50)),
        st.builds(FrameSampling, max_frames=st.integers(1, 50)),
    ),
    st.floats(0, 5),
)
def test_ascending_without_repeats_and_bounded(
    times: list[float], sampling: FrameSampling, tail: float
) -> None:
    chosen = choose_frames(times, times[-1] + tail, sampling)
    assert chosen == sorted(set(chosen)) and 1 <= len(chosen) <= sampling.max_frames
    assert all(0 <= frame < len(times) for frame in chosen)
    if sampling.count is not None:
        assert len(chosen) == min(sampling.count, len(times))

"""Decoded frames -> samples."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from lookhear.media.audio.containers import planes
from lookhear.media.audio.live_container import LiveContainer
from lookhear.media.base import MediaError


def frame(channels: int) -> tuple[av.AudioFrame, np.ndarray]:
    """A packed one, and its samples."""
    samples = np.random.default_rng(0).uniform(-1, 1, (channels, 500)).astype(np.float32)
    packed = np.ascontiguousarray(samples.T).reshape(1, -1)
    made = av.AudioFrame.from_ndarray(packed, format="flt", layout=f"{channels}C")
    made.sample_rate = 16000
    return made, samples


@pytest.mark.parametrize("channels", [1, 7, 8, 9, 35, 64])
def test_what_is_planar_has_no_more_planes_than_channels(channels: int) -> None:
    """PyAV finds nine in a frame of eight, and reads where no memory is: a film's 7.1 sound ended
    the process."""
    packed, samples = frame(channels)
    (planar,) = av.AudioResampler("fltp", packed.layout, 16000).resample(packed)
    assert planar.format.is_planar
    assert np.array_equal(planes(planar), samples) and np.array_equal(planes(packed), samples)


def test_more_channels_than_ffmpeg_can_lay_out_are_refused() -> None:
    with pytest.raises(MediaError, match="expected at most 64 channels; got 65"):
        planes(frame(65)[0])


def test_who_names_each_channel_by_itself_is_heard() -> None:
    """As AIFF does with 7.1. PyAV freed these names twice, which ended the process."""
    file = io.BytesIO()
    samples = np.full((1, 8 * 16000), 8192, np.int16)
    with av.open(file, "w", format="aiff") as output:
        stream = output.add_stream("pcm_s16be", rate=16000, layout="7.1")
        written = av.AudioFrame.from_ndarray(samples, format="s16", layout="7.1")
        written.sample_rate = 16000
        output.mux([*stream.encode(written), *stream.encode(None)])
    live = LiveContainer()
    live.feed(file.getvalue())
    live.end()
    assert np.array_equal(live.take()[0], np.full(16000, 0.25, np.float32))

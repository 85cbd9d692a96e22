"""Sound that begins late or pauses, as in recordings of calls, and which of two tracks is heard."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from av.stream import Disposition

from lookhear.media.audio.decode import MediaError, decode_audio
from lookhear.media.audio.ogg import links
from lookhear.media.audio.timeline import JITTER, MAX_PAUSE, Timeline

RATE = 16000
TONE = (0.3 * np.sin(2 * np.pi * 300 * np.arange(RATE) / RATE) * 32767).astype(np.int16)


def recorded(
    container: str,
    codec: str,
    begins: Sequence[float],
    *,
    seconds_of_pictures: float = 0.0,
    options: dict[str, str] | None = None,
) -> bytes:
    """A second of a tone at each of the times; pictures from 0 on."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container, options=options or {}) as output:
        stream: Any = output.add_stream(codec, rate=RATE)
        stream.layout = "mono"
        if seconds_of_pictures:
            pictures(output, seconds_of_pictures)
        for begin in begins:
            for at in range(0, RATE - 160, 320):
                output.mux(stream.encode(frame_of(TONE[at : at + 320], begin + at / RATE)))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def frame_of(samples: np.ndarray, time: float) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
    frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), round(time * RATE)
    return frame


def pictures(output: Any, seconds: float) -> None:
    video = output.add_stream("mpeg4", rate=10)
    video.width = video.height = 64
    video.pix_fmt = "yuv420p"
    for number in range(round(10 * seconds)):
        picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
        picture.pts = number
        output.mux(video.encode(picture))
    output.mux(video.encode(None))


def loud(data: bytes) -> list[int]:
    """The half seconds that the tone fills, but for an encoder's delay."""
    samples = decode_audio(data).samples
    halves = samples[: len(samples) // (RATE // 2) * (RATE // 2)].reshape(-1, RATE // 2)
    return [number for number, half in enumerate(halves) if half.std() > 0.1]


MADE = [("mp4", "aac"), ("webm", "libopus"), ("matroska", "pcm_s16le"), ("mpegts", "aac")]
A_PAGE_EACH = {"page_duration": "1"}  # for a packet, as recorders of calls write Ogg


@pytest.mark.parametrize(("container", "codec"), MADE)
def test_what_is_said_after_a_pause_comes_when_it_was_said(container: str, codec: str) -> None:
    """Nothing is written while a microphone is off. Such a file is complete."""
    assert loud(recorded(container, codec, [0, 4]))[:3] == [0, 1, 8]


def test_a_pause_where_no_length_is_declared() -> None:
    assert loud(recorded("webm", "libopus", [0, 4], options={"live": "1"}))[:3] == [0, 1, 8]


@pytest.mark.parametrize(("container", "codec"), [*MADE[2:], MADE[0]])
def test_sound_that_begins_after_the_pictures(container: str, codec: str) -> None:
    assert loud(recorded(container, codec, [2], seconds_of_pictures=4)) == [4, 5]


def test_a_broadcast_of_pieces_with_clocks_of_their_own_has_no_pauses() -> None:
    assert loud(recorded("mpegts", "aac", [0, 400]))[:4] == [0, 1, 2, 3]


def test_a_pause_in_ogg() -> None:
    data = recorded("ogg", "libopus", [0, 4], options=A_PAGE_EACH)
    assert loud(data)[:3] == [0, 1, 8]
    with io.BytesIO(data) as file:
        assert links(file, data[:512]) == ([0], True) and file.tell() == 0
    data = recorded("ogg", "libopus", [0, 1, 2], options=A_PAGE_EACH)
    assert links(io.BytesIO(data), data[:512]) == ([0], False)
    assert loud(data)[:5] == [0, 1, 2, 3, 4]


def test_sound_alone_begins_at_once() -> None:
    assert loud(recorded("matroska", "pcm_s16le", [30])) == [0, 1]


def test_a_late_beginning_does_not_make_up_for_a_missing_end() -> None:
    data = recorded("mp4", "aac", [2], seconds_of_pictures=3)
    head = data.index(b"mdat") - 4
    size = int.from_bytes(data[head : head + 4], "big")
    kept = head + size * 3 // 4
    with pytest.raises(MediaError) as caught:
        decode_audio(data[:kept] + bytes(head + size - kept) + data[head + size :])
    assert caught.value.reason == "truncated"


def two_tracks(default: int) -> bytes:
    """Of which the second is half as loud."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        tracks: list[Any] = [output.add_stream("pcm_s16le", rate=RATE) for _ in range(2)]
        for number, track in enumerate(tracks):
            track.layout = "mono"
            track.disposition = Disposition.default if number == default else Disposition(0)
        for number, track in enumerate(tracks):
            output.mux(track.encode(frame_of(TONE // 2**number, 0.0)))
            output.mux(track.encode(None))
    return buffer.getvalue()


@pytest.mark.parametrize("default", [0, 1])
def test_of_two_tracks_the_default_is_heard(default: int) -> None:
    samples = decode_audio(two_tracks(default)).samples
    assert np.abs(samples).max() == pytest.approx(0.3 / 2**default, abs=0.01)


def test_a_default_that_nobody_can_decode_is_not_heard() -> None:
    data = two_tracks(default=0).replace(b"A_PCM/INT/LIT", b"A_NEW/INT/LIT", 1)
    assert np.abs(decode_audio(data).samples).max() == pytest.approx(0.15, abs=0.01)


def test_frames_that_follow_each_other_need_no_silence() -> None:
    timeline = Timeline(begins=10.0)
    for number in range(100):
        jitter = 0.03 if number % 3 else 0.0
        assert timeline.place(10.0 + 0.02 * number + jitter, 0.02) == 0.0
    assert timeline.placed == pytest.approx(2.0)


def test_small_gaps_add_up() -> None:
    """Lost packets of 20 ms each."""
    timeline = Timeline(begins=0.0)
    silence = sum(timeline.place(0.04 * number, 0.02) for number in range(1000))
    assert silence == pytest.approx(20.0, abs=2 * JITTER)


@pytest.mark.parametrize("leap", [-50.0, MAX_PAUSE + 1])
def test_a_clock_that_was_set_leaves_no_silence(leap: float) -> None:
    timeline = Timeline(begins=0.0)
    assert timeline.place(60.0, 1.0) == 60.0
    assert timeline.place(61.0 + leap, 1.0) == 0.0
    assert timeline.place(64.0 + leap, 1.0) == pytest.approx(2.0)


def test_what_was_lost_does_not_count_as_placed() -> None:
    timeline = Timeline(begins=0.0)
    timeline.place(0.0, 1.0)
    timeline.lose()
    assert timeline.place(3.0, 1.0) == 2.0
    assert timeline.placed == 2.0
    assert timeline.place(6.0, 1.0) == 2.0
    assert timeline.placed == 5.0


def test_where_nobody_says_when_a_file_begins_its_sound_does() -> None:
    timeline = Timeline(begins=None)
    assert [timeline.place(time, 1.0) for time in (700.0, 701.0, 704.0)] == [0.0, 0.0, 2.0]


def test_frames_without_a_time_follow_the_last() -> None:
    timeline = Timeline(begins=5.0)
    assert [timeline.place(None, 1.0) for _ in range(3)] == [0.0] * 3
    assert timeline.placed == 3.0

"""Files of every container we promise, whole and broken."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile

from lookhear.media.audio.decode import MediaError, decode_audio, iter_audio
from tests.media.audio.recordings import RATE, SECONDS, by_ffmpeg, by_sndfile, likeness, voice

# name: how it is made, the container and codec that decoding reports
RECIPES: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "wav": (partial(by_sndfile, "WAV", "PCM_16"), "wav", "pcm_16"),
    "wav24": (partial(by_sndfile, "WAV", "PCM_24"), "wav", "pcm_24"),
    "wavfloat": (partial(by_sndfile, "WAV", "FLOAT"), "wav", "float"),
    "mp3 in wav": (partial(by_ffmpeg, "wav", "libmp3lame", 44100), "wav", "mp3float"),
    "flac": (partial(by_sndfile, "FLAC", "PCM_16"), "flac", "flac"),
    "vorbis": (partial(by_sndfile, "OGG", "VORBIS"), "ogg", "vorbis"),
    "opus": (partial(by_ffmpeg, "ogg", "libopus", 48000), "ogg", "opus"),
    "mp3": (partial(by_ffmpeg, "mp3", "libmp3lame", 44100), "mp3", "mp3float"),
    "m4a": (partial(by_ffmpeg, "ipod", "aac", 44100), "mov", "aac"),
    "mp4": (partial(by_ffmpeg, "mp4", "aac", 48000), "mov", "aac"),
    "webm": (partial(by_ffmpeg, "webm", "libopus", 48000), "matroska", "opus"),
    "mka": (partial(by_ffmpeg, "matroska", "pcm_s32le", 32000), "matroska", "pcm_s32le"),
    "piped webm": (partial(by_ffmpeg, "webm", "libopus", 48000, pipe=True), "matroska", "opus"),
    "piped wav": (partial(by_ffmpeg, "wav", "pcm_s16le", 16000, pipe=True), "wav", "pcm_16"),
    "piped flac": (partial(by_ffmpeg, "flac", "flac", 16000, pipe=True), "flac", "flac"),
}
NAMES = list(RECIPES)


@cache
def file(name: str) -> bytes:
    return RECIPES[name][0]()


def refusal(data: bytes, **limits: Any) -> MediaError:
    with pytest.raises(MediaError) as caught:
        decode_audio(data, **limits)
    assert "expected" in caught.value.detail
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_every_container(name: str) -> None:
    _, container, codec = RECIPES[name]
    audio = decode_audio(file(name))
    assert audio.samples.dtype == np.float32 and audio.samples.ndim == 1
    assert (audio.rate, audio.container, audio.codec) == (RATE, container, codec)
    assert audio.duration_s == pytest.approx(SECONDS, abs=0.12)
    assert likeness(audio.samples) > 0.98


@pytest.mark.parametrize(("container", "codec"), [("wav", "pcm_s16le"), ("ipod", "aac")])
def test_one_channel_of_several(container: str, codec: str) -> None:
    """By either library. An encoder spills a little of one into the other."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=RATE, layout="stereo")
        both = np.stack([0.5 * voice(), 0.1 * voice()])
        frame = av.AudioFrame.from_ndarray(both, format="fltp", layout="stereo")
        frame.sample_rate = RATE
        context = stream.codec_context
        size = context.frame_size or 1024
        converter = av.AudioResampler(context.format, "stereo", RATE, frame_size=size)
        for part in [*converter.resample(frame), *converter.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    data, loud = buffer.getvalue(), np.abs(voice()).max()
    for channel, share in ((0, 0.5), (1, 0.1), (7, 0.1), (None, 0.3)):
        audio = decode_audio(data, channel=channel)
        assert np.abs(audio.samples).max() == pytest.approx(share * loud, rel=0.1)
        assert audio.channels == 2


@pytest.mark.parametrize("name", ["wav", "m4a", "opus"])
def test_bytes_paths_files_and_pieces_agree(name: str, tmp_path: Path) -> None:
    data = file(name)
    path = tmp_path / "audio"
    path.write_bytes(data)
    audio = decode_audio(data)
    assert np.array_equal(decode_audio(path).samples, audio.samples)
    assert np.array_equal(decode_audio(io.BytesIO(data)).samples, audio.samples)
    pieces = list(iter_audio(path, 0.7))
    assert {len(piece) for piece in pieces[:-1]} == {round(0.7 * RATE)}
    assert 0 < len(pieces[-1]) <= round(0.7 * RATE)
    assert np.array_equal(np.concatenate(pieces), audio.samples)


@pytest.mark.parametrize(
    ("second", "heard"),
    [(-1.0, 1.0), (-0.9, 1.0), (1.0, 1.0), (0.0, 0.5), (-0.5, 0.25), (0.5, 0.75)],
)
def test_channels_that_cancel_each_other_out_are_heard(second: float, heard: float) -> None:
    """As of a line with its poles swapped. second: what that channel has of the first."""
    buffer = io.BytesIO()
    soundfile.write(
        buffer, np.stack([voice(), second * voice()], axis=1), RATE, format="WAV", subtype="FLOAT"
    )
    assert np.abs(decode_audio(buffer.getvalue()).samples - heard * voice()).max() < 1e-4


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 96000])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_any_rate_and_channels(rate: int, channels: int) -> None:
    # The wave is in the first channel only: the mean divides it by their number.
    matrix = np.zeros((SECONDS * rate, channels), np.float32)
    matrix[:, 0] = voice(rate)
    buffer = io.BytesIO()
    soundfile.write(buffer, matrix, rate, format="WAV", subtype="FLOAT")
    audio = decode_audio(buffer.getvalue())
    assert len(audio.samples) == SECONDS * RATE
    middle = slice(1000, -1000)
    assert np.abs(audio.samples * channels - voice())[middle].max() < 1e-3


def test_target_rate() -> None:
    audio = decode_audio(file("flac"), target_rate=24000)
    assert audio.rate == 24000 and len(audio.samples) == SECONDS * 24000


def test_numbers_that_are_none_become_silence() -> None:
    buffer = io.BytesIO()
    samples = np.array([0.5, np.nan, np.inf, -np.inf], np.float32)
    soundfile.write(buffer, samples, RATE, format="WAV", subtype="FLOAT")
    assert decode_audio(buffer.getvalue()).samples.tolist() == [0.5, 0, 0, 0]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("scale", [2.0, 32768.0, 1e38])
def test_floats_out_of_range_are_clipped(scale: float, channels: int) -> None:
    """Some programs write floats in the range of 16 bits."""
    buffer = io.BytesIO()
    loud = np.stack([scale * voice()] * channels, axis=1)
    soundfile.write(buffer, loud, RATE, format="WAV", subtype="FLOAT")
    heard = decode_audio(buffer.getvalue()).samples
    assert np.abs(heard - (scale * voice()).clip(-1, 1)).max() < 1e-4


@pytest.mark.parametrize("name", ["wav", "flac", "vorbis", "m4a", "webm"])
@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_truncated_and_the_container_knows(name: str, kept: float) -> None:
    data = file(name)
    error = refusal(data[: int(len(data) * kept)])
    assert error.reason == "truncated" and "truncated or damaged" in error.detail


@pytest.mark.parametrize("name", ["vorbis", "opus"])
def test_several_ogg_files_in_a_row_are_heard_to_the_end(name: str) -> None:
    """As recorders of stations write it."""
    audio = decode_audio(3 * file(name))
    assert audio.duration_s == pytest.approx(3 * SECONDS, abs=0.2)
    assert likeness(audio.samples) > 0.98


@pytest.mark.parametrize("told", [0, RATE, 9 * RATE])
def test_a_wav_that_is_wrong_about_its_bytes_per_second(told: int) -> None:
    data = bytearray(file("wav"))
    data[28:32] = told.to_bytes(4, "little")
    assert decode_audio(bytes(data)).duration_s == SECONDS
    assert refusal(bytes(data[: len(data) // 2])).reason == "truncated"


@pytest.mark.parametrize("name", ["mp3", "opus", "piped webm", "piped wav", "piped flac"])
def test_cut_short_where_no_length_is_declared(name: str) -> None:
    data = file(name)
    audio = decode_audio(data[: int(len(data) * 0.6)])
    assert 0.3 * SECONDS < audio.duration_s < 0.7 * SECONDS


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kept", [1, 4, 20, 64, 200, 600])
def test_a_few_bytes_never_raise_anything_else(name: str, kept: int) -> None:
    try:
        audio = decode_audio(file(name)[:kept])
    except MediaError as error:
        assert error.reason in ("truncated", "not_audio", "empty")
    else:
        assert audio.duration_s < 0.1


@pytest.mark.parametrize("name", NAMES)
def test_damage_never_raises_anything_else(name: str) -> None:
    rng = np.random.default_rng(3)
    data = file(name)
    for _ in range(4):
        broken = bytearray(data)
        for start in rng.integers(0, len(data) - 100, 5):
            broken[start : start + 60] = rng.bytes(60)
        try:
            audio = decode_audio(bytes(broken), max_seconds=60)
        except MediaError:
            continue
        assert np.isfinite(audio.samples).all()


def test_truncated_pieces_come_before_the_error(tmp_path: Path) -> None:
    path = tmp_path / "half.wav"
    data = file("wav")
    path.write_bytes(data[: len(data) // 2])
    seconds = 0.0
    with pytest.raises(MediaError, match="4.00 s"):
        for piece in iter_audio(path, 0.5):
            seconds += len(piece) / RATE
    assert seconds == pytest.approx(SECONDS / 2, abs=0.5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hello, this is no sound\n" * 40, "text/plain"),
        (("é" * 300).encode()[:511], "text/plain"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "text/html"),
        (b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", "text/plain"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "text/plain"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "a PNG image"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 8, "a PDF document"),
        (bytes(5000), "unknown data beginning with 00 00"),
        (np.random.default_rng(0).bytes(20000), "unknown data beginning with"),
    ],
)
def test_other_files_are_named(data: bytes, words: str) -> None:
    error = refusal(data)
    assert error.reason == "not_audio"
    assert error.detail.startswith("expected an audio file; got ") and words in error.detail


def test_zero_length() -> None:
    assert refusal(b"").reason == "empty"
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(0), RATE, format="WAV", subtype="PCM_16")
    assert refusal(buffer.getvalue()).reason == "empty"


def test_video_without_sound() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        video = output.add_stream("mpeg4", rate=10)
        video.width = video.height = 64
        video.pix_fmt = "yuv420p"
        output.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))))
        output.mux(video.encode(None))
    error = refusal(buffer.getvalue())
    assert error.reason == "no_audio_track" and "an MP4 file" in error.detail


def test_limits() -> None:
    data = file("flac")
    assert decode_audio(data, max_seconds=4, max_bytes=len(data)).duration_s == SECONDS
    error = refusal(data, max_seconds=3.5)
    assert error.reason == "too_long" and "3.5 s" in error.detail
    error = refusal(data, max_bytes=1000)
    assert error.reason == "too_large" and "1000 bytes" in error.detail
    with pytest.raises(MediaError, match="1000 bytes"):
        decode_audio(io.BytesIO(data), max_bytes=1000)


@pytest.mark.parametrize("rate", [RATE, 44_100])
def test_the_first_seconds_are_those_of_the_whole(rate: int) -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, voice(rate), rate, format="WAV")
    data = buffer.getvalue()
    whole = decode_audio(data)
    first = decode_audio(data, first_seconds=1.5)
    assert whole.is_whole and not first.is_whole
    assert len(first.samples) == 1.5 * RATE
    assert np.array_equal(first.samples, whole.samples[: len(first.samples)])
    # What is broken behind them is not looked at.
    broken = data[: len(data) * 3 // 4]
    assert np.array_equal(decode_audio(broken, first_seconds=1.5).samples, first.samples)
    assert decode_audio(data, first_seconds=SECONDS).is_whole


def test_absurd_rate() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(100), 1, format="WAV", subtype="PCM_16")
    error = refusal(buffer.getvalue())
    assert error.reason == "unsupported" and "got 1" in error.detail


def test_a_codec_that_nobody_knows() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(1000), RATE, format="WAV", subtype="PCM_16")
    data = bytearray(buffer.getvalue())
    data[20:22] = b"\x34\x12"  # the format tag
    error = refusal(bytes(data))
    assert error.reason == "unsupported" and "an unknown way" in error.detail


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        decode_audio(tmp_path / "none.wav")

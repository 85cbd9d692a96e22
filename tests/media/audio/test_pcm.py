"""Raw streams: the samples depend on the bytes and not on how they were split."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.media.audio.pcm import (
    AudioFormat,
    AudioFormatError,
    PcmStream,
    decode_alaw,
    decode_mulaw,
    decode_pcm16,
)
from tests.media.audio.encoders import encode_alaw, encode_mulaw, encode_pcm16

FORMATS = [
    AudioFormat("audio/pcm", 24000),
    AudioFormat("audio/pcm", 16000),
    AudioFormat("audio/pcm", 44100),
    AudioFormat("audio/pcm", 8001),
    AudioFormat("audio/pcmu", 8000),
    AudioFormat("audio/pcma", 8000),
]


def whole(format: AudioFormat, data: bytes) -> np.ndarray:
    stream = PcmStream(format)
    return np.concatenate([stream.feed(data), stream.flush()])


def test_pcm16_values() -> None:
    data = b"\x00\x00\xff\x7f\x00\x80\x00\x40"
    assert decode_pcm16(data).tolist() == [0, 32767, -32768, 16384]
    samples = whole(AudioFormat("audio/pcm", 16000), data)
    assert samples.dtype == np.float32
    assert samples.tolist() == [0.0, 32767 / 32768, -1.0, 0.5]


def test_pcm16_clips_and_round_trips() -> None:
    assert encode_pcm16(np.array([2.0, -2.0, 1.0], np.float32)) == b"\xff\x7f\x00\x80\xff\x7f"
    every = np.arange(-32768, 32768).astype("<i2").tobytes()
    assert encode_pcm16(whole(AudioFormat("audio/pcm", 16000), every)) == every


@pytest.mark.parametrize(
    ("encode", "decode"), [(encode_mulaw, decode_mulaw), (encode_alaw, decode_alaw)]
)
def test_g711_keeps_a_tone(encode: object, decode: object) -> None:
    assert callable(encode) and callable(decode)
    tone = (0.5 * np.sin(np.arange(8000) * 0.3)).astype(np.float32)
    noise = decode(encode(tone)) / np.float32(32768) - tone
    assert 10 * np.log10((tone**2).mean() / (noise**2).mean()) > 35  # G.711 gives about 38 dB


@settings(max_examples=60, deadline=None)
@given(
    format=st.sampled_from(FORMATS),
    data=st.binary(min_size=0, max_size=6000),
    cuts=st.lists(st.integers(0, 6000), max_size=12),
)
def test_any_chunking_gives_the_same_samples(
    format: AudioFormat, data: bytes, cuts: list[int]
) -> None:
    expected = whole(format, data)
    stream = PcmStream(format)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [stream.feed(data[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]
    got = np.concatenate([*parts, stream.flush()])
    assert got.dtype == np.float32
    assert np.array_equal(got, expected)
    samples_in = len(data) // format.sample_bytes
    assert len(got) == math.floor(samples_in * 16000 / format.rate + 0.5)
    assert stream.dropped_bytes == len(data) % format.sample_bytes


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: f"{format.kind[6:]}-{format.rate}")
def test_tone_keeps_pitch_and_level(format: AudioFormat) -> None:
    encode = {
        "audio/pcm": encode_pcm16, "audio/pcmu": encode_mulaw, "audio/pcma": encode_alaw,
    }[format.kind]  # fmt: skip
    seconds = np.arange(2 * format.rate) / format.rate
    data = encode((0.4 * np.sin(2 * np.pi * 1000 * seconds)).astype(np.float32))
    spectrum = np.abs(np.fft.rfft(whole(format, data)[8000:24000] * np.hanning(16000)))
    assert spectrum.argmax() == 1000
    assert spectrum.max() / 4000 == pytest.approx(0.4, rel=0.02)


@pytest.mark.parametrize(
    ("rate", "bound_ms"), [(8000, 4.1), (16000, 0), (24000, 2.2), (48000, 2.2)]
)
def test_delay_of_the_live_resampler(rate: int, bound_ms: float) -> None:
    stream = PcmStream(AudioFormat("audio/pcm", rate))
    given = 0
    for fed in range(1, 101):  # 20 ms each
        given += len(stream.feed(bytes(2 * rate // 50)))
        assert fed * 20 - given / 16 <= bound_ms


def test_flush_and_reset_begin_anew() -> None:
    format = AudioFormat("audio/pcm", 24000)
    data = encode_pcm16(np.random.default_rng(0).normal(0, 0.1, 5000).astype(np.float32))
    expected = whole(format, data)
    stream = PcmStream(format)
    stream.feed(data[:777])
    stream.flush()
    assert stream.dropped_bytes == 1
    assert np.array_equal(np.concatenate([stream.feed(data), stream.flush()]), expected)
    stream.feed(data[:333])
    stream.reset()
    assert np.array_equal(np.concatenate([stream.feed(data), stream.flush()]), expected)
    assert stream.dropped_bytes == 1


def test_nothing_in_nothing_out() -> None:
    for format in FORMATS:
        assert len(whole(format, b"")) == 0


def test_format_defaults() -> None:
    assert AudioFormat.parse("audio/pcm") == AudioFormat("audio/pcm", 24000)
    assert AudioFormat.parse("audio/pcmu") == AudioFormat("audio/pcmu", 8000)
    assert AudioFormat.parse("audio/pcma", 8000) == AudioFormat("audio/pcma", 8000)
    assert AudioFormat.parse("audio/pcm", 48000).rate == 48000


@pytest.mark.parametrize(
    ("type", "rate", "field", "words"),
    [
        ("audio/mp3", None, "type", "got 'audio/mp3'"),
        (None, None, "type", "'audio/pcm'"),
        (["audio/pcm"], None, "type", "got ['audio/pcm']"),
        ("audio/pcm", 7999, "rate", "from 8000 to 48000"),
        ("audio/pcm", 48001, "rate", "got 48001"),
        ("audio/pcm", "24000", "rate", "got '24000'"),
        ("audio/pcm", 24000.0, "rate", "an integer"),
        ("audio/pcm", True, "rate", "got True"),
        ("audio/pcmu", 16000, "rate", "expected 8000 (Hz)"),
    ],
)
def test_bad_formats_name_the_field(type: object, rate: object, field: str, words: str) -> None:
    with pytest.raises(AudioFormatError) as caught:
        AudioFormat.parse(type, rate)
    assert caught.value.field == field
    assert words in str(caught.value)


@given(st.integers(1, 6), st.lists(st.integers(0, 400), max_size=6), st.integers(0, 2**32 - 1))
def test_channels_side_by_side_become_their_mean(channels: int, cuts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    samples = random.integers(-32768, 32768, (90, channels)).astype("<i2")
    data = samples.tobytes()
    stream = PcmStream(AudioFormat("audio/pcm", 16000, channels))
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [stream.feed(data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    heard = np.concatenate([*parts, stream.flush()])
    mean = np.rint(samples.astype(np.float64).mean(axis=1)) / 32768
    assert np.array_equal(heard, mean.astype(np.float32))
    assert AudioFormat("audio/pcm", 16000, channels).as_wav(data)[44:] == data

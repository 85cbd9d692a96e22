"""Decoded media with its bytes: identity, pickling, base64."""

from __future__ import annotations

import base64
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import soundfile

from lookhear.media.audio.decode import AudioMediaIO
from lookhear.media.base import MediaError, MediaWithBytes


def wav(value: float = 0.25) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.full(1600, value), 16000, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def test_equal_bytes_are_equal_media() -> None:
    one, two = AudioMediaIO().load_bytes(wav()), AudioMediaIO().load_bytes(wav())
    assert one == two and hash(one) == hash(two) and len({one, two}) == 1
    assert one != AudioMediaIO().load_bytes(wav(0.5))
    assert one != "something else"
    assert len(one.digest) == 16
    assert one.media.duration_s == pytest.approx(0.1)


def test_pickles_before_and_after_the_digest_is_known() -> None:
    item = AudioMediaIO().load_bytes(wav())
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(item))
        assert copy == item and copy.original_bytes == item.original_bytes
        assert np.array_equal(copy.media.samples, item.media.samples)


def test_digest_is_of_the_bytes_only() -> None:
    assert MediaWithBytes("a", b"x") == MediaWithBytes("b", b"x")
    assert MediaWithBytes("a", b"x") != MediaWithBytes("a", b"y")


def test_the_three_ways_in_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav())
    loader = AudioMediaIO(target_rate=8000)
    encoded = base64.b64encode(wav()).decode()
    items = [loader.load_bytes(wav()), loader.load_base64("audio/wav", encoded)]
    items.append(loader.load_file(path))
    assert len(set(items)) == 1 and {item.media.rate for item in items} == {8000}


def test_base64_of_urls_and_without_padding() -> None:
    loader = AudioMediaIO()
    data = wav(-0.001)
    spelt = base64.urlsafe_b64encode(data).decode()
    assert spelt.endswith("=") and "_" in spelt
    for text in (spelt, spelt.rstrip("=")):
        assert loader.load_base64("audio/wav", text).original_bytes == data


def test_base64_in_lines() -> None:
    """As `base64` of a shell, and Python's encodebytes, write it."""
    data = wav()
    lines = base64.encodebytes(data).decode()
    for text in (lines, lines.replace("\n", "\r\n"), lines.rstrip("=\n")):
        assert AudioMediaIO().load_base64("audio/wav", text).original_bytes == data


@pytest.mark.parametrize("data", ["%%%", "abcde", "abc=d", "YWJj\n!", "YW J", "é"])
def test_bad_base64(data: str) -> None:
    with pytest.raises(MediaError, match="expected audio/wav as base64") as caught:
        AudioMediaIO().load_base64("audio/wav", data)
    assert caught.value.reason == "bad_base64"
    assert f"; got {len(data)} characters that are not base64 (" in str(caught.value)


def test_bad_base64_of_who_names_no_type() -> None:
    with pytest.raises(MediaError, match="^expected a file as base64; got 3 characters"):
        AudioMediaIO().load_base64("", "%%%")


def test_limits_apply(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav())
    with pytest.raises(MediaError) as caught:
        AudioMediaIO(max_bytes=100).load_file(path)
    assert caught.value.reason == "too_large"
    with pytest.raises(MediaError) as caught:
        AudioMediaIO(max_seconds=0.05).load_bytes(wav())
    assert caught.value.reason == "too_long"
    assert pickle.loads(pickle.dumps(caught.value)).reason == "too_long"

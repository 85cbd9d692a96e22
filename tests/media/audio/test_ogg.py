"""Ogg files in a row, whatever each of them holds."""

from __future__ import annotations

import io
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from lookhear.media.audio.decode import decode_audio
from lookhear.media.audio.ogg import OGG, Cutter, links, parts
from lookhear.media.base import MediaError
from tests.media.audio.recordings import RATE, SECONDS, by_ffmpeg, likeness, voice


def vorbis(rate: int, channels: int) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(
        buffer, np.stack([voice(rate)] * channels, axis=1), rate, format="OGG", subtype="VORBIS"
    )
    return buffer.getvalue()


RECIPES = {
    "opus": partial(by_ffmpeg, "ogg", "libopus", 48000),
    "flac": partial(by_ffmpeg, "ogg", "flac", 16000),
    "flac at 48 kHz": partial(by_ffmpeg, "ogg", "flac", 48000),
    "vorbis": partial(vorbis, 16000, 1),
    "stereo": partial(vorbis, 16000, 2),
    "vorbis at 44.1 kHz": partial(vorbis, 44100, 1),
}


@cache
def file(name: str) -> bytes:
    return RECIPES[name]()


def page(flags: int, size: int = 0) -> bytes:
    """A head, and bytes that are behind it."""
    return OGG + b"\0" + bytes([flags]) + bytes(21) + bytes(size)


@pytest.mark.parametrize(
    "names",
    [
        ["vorbis", "vorbis at 44.1 kHz"],
        ["stereo", "vorbis", "stereo"],
        ["flac", "flac at 48 kHz"],
        ["vorbis", "opus", "flac"],
        ["opus", "vorbis", "opus"],
    ],
    ids=", ".join,
)
def test_each_is_heard_however_it_is_coded(names: list[str]) -> None:
    audio = decode_audio(b"".join(map(file, names)))
    assert audio.duration_s == pytest.approx(len(names) * SECONDS, abs=0.1)
    each = audio.duration_s * RATE / len(names)
    for number in range(len(names)):
        assert likeness(audio.samples[round(number * each) :]) > 0.98


@pytest.mark.parametrize("kept", [27, 28, 120, 200])
def test_one_that_was_cut_before_its_first_sound_is_no_damage(kept: int) -> None:
    whole = decode_audio(file("opus")).samples
    one = decode_audio(file("opus") + file("vorbis")[:kept]).samples
    assert np.allclose(one, whole, atol=1e-4)
    both = decode_audio(file("opus") + file("vorbis")[:kept] + file("opus")).samples
    assert len(both) == 2 * len(whole)
    begun = decode_audio(file("vorbis")[:kept] + file("opus")).samples
    assert np.allclose(begun, whole, atol=1e-4)


@pytest.mark.parametrize("kept", [0, 4, 5, 6, 13, 14, 26, 27])
def test_the_head_of_a_page_that_is_cut_takes_nothing_of_the_next_file(kept: int) -> None:
    data = file("opus")
    cut = data[: data.rindex(OGG) + kept]
    with io.BytesIO(cut + data) as opened:
        assert links(opened, cut)[0] == [0, len(cut)]
    cutter = Cutter()
    before, *files = cutter.feed(cut + data)
    files[-1] += cutter.end()
    assert not before and files == [cut, data]


def test_where_none_holds_a_sound_none_is_heard() -> None:
    begin = file("opus")[: file("opus").index(b"OpusTags")]
    with pytest.raises(MediaError) as caught:
        decode_audio(begin + begin)
    assert caught.value.reason in ("empty", "truncated")


def test_several_tracks_begin_one_file() -> None:
    first, more = page(2, 10), page(0, 10)
    one, two = 2 * first + 2 * more, first + more
    with io.BytesIO(one + two) as opened:
        starts, _ = links(opened, one)
        assert starts == [0, len(one)]
        assert [part.read() for part in parts(opened, starts)] == [one, two]


@pytest.mark.parametrize("start", range((1 << 20) - 28, (1 << 20) + 2))
def test_a_page_is_found_wherever_the_file_is_read_in_two(start: int) -> None:
    data = page(2) + page(0, start - 54) + page(2) + page(0)
    with io.BytesIO(data) as opened:
        assert links(opened, data)[0] == [0, start] and opened.tell() == 0


@given(st.lists(st.integers(0, 300), max_size=20))
def test_a_stream_is_cut_there_however_it_comes(cuts: list[int]) -> None:
    first, more = page(2, 5), page(0, 30)
    whole = [b"OggOggS", 2 * first + 2 * more, first + more + OGG]
    stream = b"".join(whole)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    cutter, files = Cutter(), [b""]
    for begin, end in pairwise(edges):
        rest, *others = cutter.feed(stream[begin:end])
        files[-1] += rest
        files += others
    files[-1] += cutter.end()
    assert files == whole and cutter.end() == b""

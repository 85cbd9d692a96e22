"""Recordings that are heard while they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

import av
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookhear.media.audio.decode import decode_audio
from lookhear.media.audio.live_container import HELD_SECONDS, LiveContainer
from lookhear.media.base import MediaError
from tests.media.audio.recordings import RATE, SECONDS, by_ffmpeg, likeness

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "100000"}
CLUSTERS, PAGES = {"cluster_time_limit": "100"}, {"page_duration": "100000"}
# How it is made, and by how many seconds what is heard may be behind what came.
RECIPES: dict[str, tuple[Callable[[], bytes], float]] = {
    "webm": (
        partial(by_ffmpeg, "webm", "libopus", 48000, pipe=True, cluster_time_limit="100"),
        0.5,
    ),
    "ogg": (partial(by_ffmpeg, "ogg", "libopus", 48000, pipe=True, page_duration="100000"), 0.5),
    "mp4": (partial(by_ffmpeg, "ipod", "aac", 48000, pipe=True, **FRAGMENTS), 0.5),
    "mp4 at 24 kHz": (partial(by_ffmpeg, "ipod", "aac", 24000, pipe=True, **FRAGMENTS), 0.5),
    "film": (partial(by_ffmpeg, "mp4", "aac", 48000, pipe=True, **FRAGMENTS), 1.5),
    "adts": (partial(by_ffmpeg, "adts", "aac", 48000, pipe=True), 0.5),
    "mp3": (partial(by_ffmpeg, "mp3", "libmp3lame", 44100, pipe=True), 0.5),
    "wav": (partial(by_ffmpeg, "wav", "pcm_s16le", 16000, pipe=True), 0.5),
    "telephone": (partial(by_ffmpeg, "wav", "pcm_s16le", 8000, pipe=True), 0.5),
    "mu-law": (partial(by_ffmpeg, "wav", "pcm_mulaw", 8000, pipe=True), 0.5),
    "flac": (partial(by_ffmpeg, "flac", "flac", 16000, pipe=True), 2.0),
    "flac in ogg": (partial(by_ffmpeg, "ogg", "flac", 16000, pipe=True, **PAGES), 0.5),
    "mpegts": (partial(by_ffmpeg, "mpegts", "aac", 48000, pipe=True), 0.5),
}


@cache
def file(name: str) -> bytes:
    return RECIPES[name][0]()


def taken(stream: LiveContainer) -> np.ndarray:
    """All that waits."""
    parts, more = [], True
    while more:
        samples, more = stream.take()
        parts.append(samples)
    return np.concatenate(parts)


def heard(pieces: Iterable[bytes]) -> list[np.ndarray]:
    """What each of them completes, and what their end does."""
    stream, parts = LiveContainer(), []
    for piece in pieces:
        stream.feed(piece)
        parts.append(taken(stream))
    stream.end()
    return [*parts, taken(stream)]


def split(data: bytes, *cuts: int) -> list[bytes]:
    edges = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


@pytest.mark.parametrize("name", RECIPES)
def test_what_a_browser_sends_is_heard_as_it_comes(name: str) -> None:
    data, patience = file(name), RECIPES[name][1]
    tenth = len(data) // (10 * SECONDS)
    parts = heard(split(data, *range(tenth, len(data), tenth)))
    samples = np.concatenate(parts)
    assert len(samples) == len(decode_audio(data).samples)
    assert likeness(samples) > 0.98
    first = next(i for i, part in enumerate(parts) if len(part))
    assert (first + 1) / 10 <= patience
    half = sum(map(len, parts[: len(parts) // 2]))
    assert half / RATE >= SECONDS / 2 - patience, "and it does not fall behind"


@given(st.sampled_from(["webm", "ogg", "mp4", "wav"]), st.lists(st.integers(0, 30_000), max_size=8))
@settings(max_examples=40, deadline=None)
def test_how_it_was_split_makes_no_difference(name: str, cuts: list[int]) -> None:
    data = file(name)
    cuts = [cut for cut in cuts if cut < len(data)]
    assert np.array_equal(np.concatenate(heard(split(data, *cuts))), whole(name))


@cache
def whole(name: str) -> np.ndarray:
    return np.concatenate(heard([file(name)]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((name, name) for name in ("webm", "ogg", "mp4", "wav", "flac")),
        ("mp4", "mp4 at 24 kHz"),
        ("wav", "telephone"),
        ("webm", "ogg"),
        ("ogg", "flac in ogg"),
        ("ogg", "mp4"),
    ],
)
def test_a_recorder_that_was_started_again_is_heard_on(before: str, after: str) -> None:
    samples = np.concatenate(heard([file(before), file(after)]))
    assert np.array_equal(samples, np.concatenate([whole(before), whole(after)]))
    assert likeness(samples[len(whole(before)) :]) > 0.98


@given(st.lists(st.integers(0, 100_000), max_size=8))
@settings(max_examples=20, deadline=None)
def test_an_ogg_file_behind_another_may_be_split_anywhere(cuts: list[int]) -> None:
    data = file("ogg") + file("flac in ogg")
    samples = np.concatenate(heard(split(data, *(cut for cut in cuts if cut < len(data)))))
    assert np.array_equal(samples, np.concatenate([whole("ogg"), whole("flac in ogg")]))


def test_a_flac_in_another_container_is_no_recording_of_its_own() -> None:
    data = file("flac in ogg")
    cut = data.index(b"fLaC")
    assert np.array_equal(np.concatenate(heard(split(data, cut))), whole("flac in ogg"))


def test_what_was_not_written_is_silence() -> None:
    """A microphone that was off: the times of its packets go on."""
    pipe = Pieces()
    with av.open(pipe, "w", format="webm", options=CLUSTERS) as output:
        stream = output.add_stream("libopus", rate=48000, layout="mono")
        for number in range(200):
            frame = av.AudioFrame.from_ndarray(
                np.full((1, 960), 0.1, np.float32), format="flt", layout="mono"
            )
            frame.sample_rate, frame.pts = 48000, number * 960 + (48000 if number >= 100 else 0)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    seconds = sum(map(len, heard(pipe.pieces))) / RATE
    assert seconds == pytest.approx(5.0, abs=0.15)


class Pieces:
    """As they are written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.pieces.append(bytes(data))
        return len(data)


def test_hours_in_a_few_bytes_are_handed_out_bit_by_bit() -> None:
    pipe = Pieces()
    with av.open(pipe, "w", format="flac") as output:
        stream = output.add_stream("flac", rate=8000, layout="mono")
        silence = np.zeros((1, 8000 * 200), np.int16)
        frame = av.AudioFrame.from_ndarray(silence, format="s16", layout="mono")
        frame.sample_rate = 8000
        converter = av.AudioResampler("s16", "mono", 8000, frame_size=4608)
        for part in [*converter.resample(frame), *converter.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    live, parts, more = LiveContainer(), [], True
    live.feed(b"".join(pipe.pieces))
    live.end()
    while more:
        samples, more = live.take()
        parts.append(len(samples))
    assert sum(parts) == 200 * RATE
    assert len(parts) >= 200 / HELD_SECONDS and max(parts) < (HELD_SECONDS + 2) * RATE


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"\0\1" * 20_000, "unknown data"),
        (b"words " * 7000, "text/plain"),
        (b"\x89PNG\r\n" + bytes(40_000), "a PNG image"),
    ],
)
def test_what_is_no_recording_is_named_before_it_ends(data: bytes, named: str) -> None:
    stream = LiveContainer()
    with pytest.raises(MediaError, match=f"expected a recording .* got {named}") as raised:
        for start in range(0, len(data), 1000):
            stream.feed(data[start : start + 1000])
            taken(stream)
    assert raised.value.reason == "not_audio"
    with pytest.raises(MediaError):  # and for all that follows
        stream.take()
    stream.feed(b"more")
    stream.end()


def test_a_file_whose_index_is_at_its_end_is_refused() -> None:
    """All of its sound is gone when it is known where it was."""
    data = by_ffmpeg("ipod", "aac", 48000)
    with pytest.raises(MediaError, match="got an MP4 file with its index at the end") as raised:
        heard(split(data, *range(4000, len(data), 4000)))
    assert raised.value.reason == "unsupported"


def test_of_a_recorder_that_wrote_nothing_but_its_head_nothing_is_heard() -> None:
    head = file("mp4")[: file("mp4").index(b"moof") - 4]
    assert np.array_equal(np.concatenate(heard([head, file("mp4")])), whole("mp4"))


@pytest.mark.parametrize("kept", [1, 2])
def test_an_ogg_of_which_nothing_but_a_head_was_written_is_followed(kept: int) -> None:
    """Pages; a recorder that was stopped before its first sound, and started again."""
    data = file("ogg")
    pages = [at for at in range(len(data)) if data.startswith(b"OggS", at)]
    begun = data[: pages[kept]]
    if kept == 1:
        begun = data[:14] + b"else" + data[18 : pages[1]]  # another recording has another number
    once = sum(map(len, heard([data])))
    assert sum(map(len, heard([begun, data]))) == once
    assert sum(map(len, heard([begun + data, begun, data]))) == 2 * once


def test_what_was_heard_comes_before_what_is_wrong() -> None:
    stream = LiveContainer()
    stream.feed(file("webm"))
    stream.feed(b"\x1a\x45\xdf\xa3" + bytes(10_000))
    stream.end()
    assert len(stream.take()[0]) == len(whole("webm"))
    with pytest.raises(MediaError):
        stream.take()


@pytest.mark.parametrize("pieces", [[], [b""]])
def test_nothing_at_all_is_nothing(pieces: list[bytes]) -> None:
    assert not len(np.concatenate(heard(pieces)))


@given(st.integers(0, 2**32 - 1))
@example(2062)  # a track that appears in the middle
@settings(max_examples=60, deadline=None)
def test_damage_never_raises_anything_else(seed: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(file(str(random.choice(list(RECIPES)))))
    for place in random.integers(0, len(data), random.integers(1, 40)):
        data[place] = random.integers(256)
    try:
        heard(split(bytes(data), *map(int, random.integers(0, len(data), 5))))
    except MediaError as error:
        assert "expected" in error.detail

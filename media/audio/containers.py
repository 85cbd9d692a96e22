"""Audio files of any container -> blocks of mono samples at the file's own rate.

WAV, FLAC, Ogg and their like are read by libsndfile, the rest (MP3, MP4/M4A, WebM, video files) by
FFmpeg. Nothing here holds a whole file's samples, and no error of either library gets out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import av
import numpy as np
import soundfile
from av.stream import Disposition
from numpy.typing import NDArray

from lookhear.media.audio.declared import missing, wav_seconds
from lookhear.media.audio.ogg import OGG, links, parts
from lookhear.media.audio.timeline import MAX_PAUSE, Timeline
from lookhear.media.base import MediaError
from lookhear.media.ffmpeg import open_container
from lookhear.media.mp4_limits import check_mp4, is_mp4
from lookhear.media.signatures import describe

__all__ = ["AudioSource", "open_audio"]

Samples = NDArray[np.float32]

CANCELLED = 0.01  # of the power of two channels, in their mean: -20 dB
BLOCK = 4096  # samples per channel and read; of a damaged block libsndfile gives none
UNKNOWN_FRAMES = 1 << 60  # libsndfile's answer for a FLAC written to a pipe is near 2**63
# 1 Hz to 16 kHz would turn a small file into gigabytes.
RATES = (1000, 768000)
# A playlist demuxer would open the files and addresses that the input names.
DEMUXERS = "aac,ac3,aiff,amr,asf,au,avi,caf,eac3,flac,flv,matroska,mp3,mpeg,mpegts,ogg,w64,wav,webm"
# FFmpeg's other containers have no duration field: it guesses from size and bit rate.
DECLARING = ("mov", "matroska", "flac")
# Those that say of each packet when it is to be heard. Broadcasts put pieces with other clocks in a
# row: there FFmpeg takes leaps of more than 10 s for that.
TIMING = dict.fromkeys(("mov", "matroska", "ogg", "flv", "asf"), MAX_PAUSE)
TIMING |= {"mpegts": 10.0, "mpeg": 10.0}

# PyAV takes what lies behind the addresses of more for others, and reads there.
MOST_PLANES = 7
MOST_CHANNELS = 64  # FFmpeg's for a change of layout

SNDFILE_MAGIC = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"FORM", b"caff")


@dataclass
class AudioSource:
    """An open file. `blocks` yields (rate, [n] mono) and raises MediaError."""

    container: str
    codec: str
    channels: int
    blocks: Iterator[tuple[int, Samples]]


@contextmanager
def open_audio(file: BinaryIO, channel: int | None = None) -> Iterator[AudioSource]:
    """Opens a seekable binary file. The source must be consumed inside the `with`. channel: that is
    heard, from 0; the last one of fewer. None: all together.

    What is incomplete: a file is refused as truncated when its container declares a length and more
    than 0.1 s + 1 % of it is missing, or when nothing can be decoded. Containers that declare none
    (MP3, Ogg, a browser's WebM, a WAV written to a pipe) cannot tell an early end from a short
    recording: what is there is decoded. Single damaged packets are skipped, as players do.
    """
    more = missing(file)
    with opened(file, channel) as source:
        yield source if more == 1.0 else replace(source, blocks=cut_blocks(source.blocks, more))


def cut_blocks(blocks: Iterator[tuple[int, Samples]], more: float) -> Iterator[tuple[int, Samples]]:
    """more: times as much is declared."""
    decoded_s = 0.0
    for rate, block in blocks:
        decoded_s += len(block) / rate
        yield rate, block
    check_complete(more * decoded_s, decoded_s)


@contextmanager
def opened(file: BinaryIO, channel: int | None) -> Iterator[AudioSource]:
    """By the library that can."""
    head = file.read(512)
    if not head:
        raise MediaError("empty", "expected an audio file; got 0 bytes")
    file.seek(0)
    starts, has_pauses = links(file, head) if head.startswith(OGG) else ([0], False)
    if head.startswith(SNDFILE_MAGIC) and starts == [0] and not has_pauses:
        declared_s = wav_seconds(file)
        try:
            sound = soundfile.SoundFile(file)
        except soundfile.LibsndfileError:
            pass  # a codec that libsndfile lacks: FFmpeg's turn
        else:
            with sound:
                is_mp3 = sound.subtype.startswith("MPEG")  # read in blocks it is damaged at each
                if 0 < sound.frames < UNKNOWN_FRAMES and not is_mp3:
                    yield sndfile_source(sound, declared_s, channel)
                    return
        file.seek(0)
    if len(starts) > 1:
        first = first_link(parts(file, starts), channel)
        yield replace(first, blocks=linked_blocks(parts(file, starts), channel))
        return
    with open_ffmpeg(file, head, channel) as source:
        yield source


def sndfile_source(
    sound: soundfile.SoundFile, declared_s: float | None, channel: int | None
) -> AudioSource:
    if declared_s is None and sound.format == "FLAC":
        declared_s = sound.frames / sound.samplerate
    rate = checked_rate(sound.samplerate)

    def blocks() -> Iterator[tuple[int, Samples]]:
        decoded = 0
        while True:
            try:
                block = sound.read(BLOCK, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError:
                raise truncated(declared_s, decoded / rate) from None
            if not len(block):
                break
            decoded += len(block)
            yield rate, mono(block.T, channel)
        check_complete(declared_s, decoded / rate)

    codec = "flac" if sound.format == "FLAC" else sound.subtype.lower()
    return AudioSource(sound.format.lower(), codec, sound.channels, blocks())


@contextmanager
def open_ffmpeg(file: BinaryIO, head: bytes, channel: int | None) -> Iterator[AudioSource]:
    name, kind = describe(head)
    demuxers = DEMUXERS
    if is_mp4(head):
        check_mp4(file)
        demuxers = "mov"
    try:
        container = open_container(file, {"format_whitelist": demuxers})
    except (av.FFmpegError, OSError, ValueError) as error:
        if kind == "recording":
            raise MediaError(
                "truncated",
                f"expected a complete audio file; got {name} that is truncated or damaged: "
                "nothing in it can be decoded",
            ) from error
        raise MediaError("not_audio", f"expected an audio file; got {name}") from error
    with container:
        stream = audio_stream(container, name)
        yield AudioSource(
            container.format.name.split(",")[0],
            stream.codec_context.name,
            stream.codec_context.channels,
            ffmpeg_blocks(container, stream, channel),
        )


def first_link(files: Iterator[BinaryIO], channel: int | None) -> AudioSource:
    """The first of Ogg files in a row that can be opened, closed again."""
    problem: MediaError | None = None
    for file in files:
        try:
            with open_ffmpeg(file, OGG, channel) as source:
                return source
        except MediaError as error:
            if error.reason not in ("empty", "truncated"):
                raise
            problem = problem or error
    assert problem is not None, "there are some"
    raise problem


def linked_blocks(files: Iterator[BinaryIO], channel: int | None) -> Iterator[tuple[int, Samples]]:
    """Of Ogg files in a row. One in which there is nothing, cut off or not, is no damage."""
    is_empty = True
    for file in files:
        has_begun = False
        try:
            with open_ffmpeg(file, OGG, channel) as source:
                for block in source.blocks:
                    is_empty, has_begun = False, True
                    yield block
        except MediaError as error:
            if has_begun or error.reason not in ("empty", "truncated"):
                raise
    if is_empty:
        check_complete(None, 0.0)


def audio_stream(container: Any, name: str) -> Any:
    """The one to be heard. name: of what it is a container of, for people."""
    if not container.streams.audio:
        if container.streams:
            raise MediaError(
                "no_audio_track", f"expected a file with an audio track; got {name} without one"
            )
        raise MediaError(
            "truncated", f"expected a complete audio file; got {name} cut before its tracks"
        )
    stream = max(container.streams.audio, key=preference)
    if stream.codec_context is None:
        raise MediaError(
            "unsupported",
            f"expected an audio file that can be decoded; got {name} coded in an unknown way",
        )
    # Nobody asks which of its channels is on the left. PyAV frees what it knows of one that names
    # each by itself (AIFF, QuickTime) whenever it was asked, and with every frame: since 17.1 that
    # ends the process. So it is asked once, and what it knows is replaced.
    count = stream.codec_context.channels
    if count:
        stream.codec_context.layout = f"{count} channels"
    return stream


def preference(stream: Any) -> tuple[bool, bool, bool, bool]:
    """Of several tracks players take the file's default, and the first one among equals; but one
    that can be decoded: telephones put a new kind of sound beside the usual one; and one that has
    begun: behind the first page of a recorder that was stopped and started again nothing comes."""
    disposition = stream.disposition
    impaired = disposition & (Disposition.hearing_impaired | Disposition.visual_impaired)
    can_be_heard = stream.codec_context is not None
    has_begun = stream.start_time is not None
    return can_be_heard, has_begun, not impaired, bool(disposition & Disposition.default)


def ffmpeg_blocks(
    container: Any, stream: Any, channel: int | None
) -> Iterator[tuple[int, Samples]]:
    begins = container.start_time
    most = longest_pause(container)
    timeline = Timeline(None if begins is None else begins / av.time_base, most)
    yield from decoded_blocks(container, stream, timeline, channel)
    check_complete(declared_seconds(container, stream), timeline.placed)


def longest_pause(container: Any) -> float:
    """Seconds that its times may leave out; 0.0 if it tells none."""
    return TIMING.get(container.format.name.split(",")[0], 0.0)


def decoded_blocks(
    container: Any, stream: Any, timeline: Timeline, channel: int | None = None
) -> Iterator[tuple[int, Samples]]:
    """All that can be decoded, with the silence between."""
    is_timed = longest_pause(container) > 0
    good = bad = 0
    for packet in demux(container, stream):
        try:
            frames = packet.decode()
            good += 1
        except av.FFmpegError:
            bad += 1
            timeline.lose()
            continue
        for frame in frames:
            rate = checked_rate(frame.sample_rate)
            pause = timeline.place(frame.time if is_timed else None, frame.samples / rate)
            yield from silence(rate, pause)
            yield rate, mono(planes(frame), channel)
    if bad > good:
        raise MediaError(
            "truncated",
            f"expected a complete audio file; got one with {bad} of {bad + good} packets damaged",
        )


def silence(rate: int, seconds: float) -> Iterator[tuple[int, Samples]]:
    left = round(seconds * rate)
    while left > 0:
        yield rate, np.zeros(min(left, BLOCK), np.float32)
        left -= BLOCK


def demux(container: Any, *streams: Any) -> Iterator[Any]:
    """Packets to the end of the bytes, be it inside a packet: the length tells that. Of all tracks
    where none is named."""
    goes_on = True
    with suppress(av.FFmpegError, OSError):
        while goes_on:
            try:
                yield from container.demux(*streams)
                goes_on = False
            except IndexError:  # a packet of a track that was not there when the file was opened
                pass


def declared_seconds(container: Any, stream: Any) -> float | None:
    """The length that the container itself states for its audio, or None."""
    if not container.format.name.startswith(DECLARING):
        return None
    if stream.duration:
        return float(stream.duration * stream.time_base)
    # Matroska states one length for all its tracks together, from zero on.
    if container.duration and len(container.streams) == 1:
        return float((container.duration - max(0, container.start_time or 0)) / av.time_base)
    return None


def planes(frame: Any) -> Samples:
    """A decoded frame of any sample format -> [channels, n] in [-1, 1]. Raises MediaError."""
    count = frame.layout.nb_channels
    if count > MOST_CHANNELS:
        raise MediaError("unsupported", f"expected at most {MOST_CHANNELS} channels; got {count}")
    if frame.format.is_planar and count > MOST_PLANES:
        packer = av.AudioResampler(frame.format.packed, frame.layout, frame.sample_rate)
        return np.concatenate([planes(packed) for packed in packer.resample(frame)], axis=1)
    try:
        data = frame.to_ndarray()
    except ValueError as error:  # whole numbers of 64 bits, of which NumPy would have a type
        raise MediaError(
            "unsupported",
            f"expected samples of at most 32 bits, or floats; got {frame.format.name}",
        ) from error
    if not frame.format.is_planar:
        data = data.reshape(-1, frame.layout.nb_channels).T
    if data.dtype.kind == "f":
        return np.asarray(data, dtype=np.float32)
    if data.dtype == np.uint8:
        return np.asarray(data / 128 - 1, dtype=np.float32)
    return np.asarray(data / -float(np.iinfo(data.dtype).min), dtype=np.float32)


def mono(channels: Samples, channel: int | None = None) -> Samples:
    """[channels, n] -> [n], one of them, or the mean; of two that cancel each other out (a line
    with its poles swapped) the first. Floats that are no number become silence, those beyond
    [-1, 1] are clipped, as players do: some are written in the range of 16 bits."""
    if not np.isfinite(channels).all():
        channels = np.nan_to_num(channels, nan=0.0, posinf=0.0, neginf=0.0)
    channels = channels.clip(-1.0, 1.0)
    if channel is not None:
        channels = channels[channel : channel + 1] if channel < len(channels) else channels[-1:]
    mixed = channels[0] if len(channels) == 1 else channels.mean(axis=0)
    if len(channels) == 2 and np.square(mixed).mean() < CANCELLED * np.square(channels).mean():
        mixed = channels[0]
    return np.ascontiguousarray(mixed, dtype=np.float32)


def checked_rate(rate: int) -> int:
    if not RATES[0] <= rate <= RATES[1]:
        raise MediaError(
            "unsupported", f"expected a sample rate from {RATES[0]} to {RATES[1]} Hz; got {rate}"
        )
    return rate


def check_complete(declared_s: float | None, decoded_s: float) -> None:
    if decoded_s == 0:
        raise MediaError("empty", "expected an audio file; got one without a single sample")
    # Encoders' padding and rounding make small differences normal.
    if declared_s is not None and decoded_s < 0.99 * declared_s - 0.1:
        raise truncated(declared_s, decoded_s)


def truncated(declared_s: float | None, decoded_s: float) -> MediaError:
    declared = "more" if declared_s is None else f"{declared_s:.2f} s"
    return MediaError(
        "truncated",
        f"expected a complete audio file; its header declares {declared}, but only "
        f"{decoded_s:.2f} s could be decoded: truncated or damaged",
    )

"""A recording that is still being made -> samples, as its bytes come.

What a browser's MediaRecorder hands out piece by piece (WebM, Ogg, fragmented MP4), and whatever
else FFmpeg can read from a pipe. FFmpeg asks for bytes when it wants some, and here they come when
they come: so it runs in a thread of its own, and waits there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import av
import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.containers import DEMUXERS, audio_stream, decoded_blocks, longest_pause
from lookhear.media.audio.ogg import OGG, Cutter
from lookhear.media.audio.resample import StreamResampler
from lookhear.media.audio.timeline import Timeline
from lookhear.media.audio.wav_stream import Limited, Replayed, wav_head
from lookhear.media.base import MediaError
from lookhear.media.ffmpeg import Readable, open_container
from lookhear.media.signatures import describe

__all__ = ["WEBM", "LiveContainer"]

Samples = NDArray[np.float32]

HEAD = 512  # bytes by which it is named to people
# Of what kind it is and how it is coded is told by its first bytes, a fraction of a second; not by
# the megabytes that are looked at on a disk.
OPENING = {"probesize": "4096", "analyzeduration": "200000"}
OPENING |= {"formatprobesize": "32768", "format_whitelist": f"{DEMUXERS},mov"}
EXPECTED = "expected a recording that can be heard as it comes, such as WebM or Ogg"
READ = 4096  # bytes at once
MAX_PAUSE = 30.0  # seconds that its times may leave out; a larger leap is a clock that was set
HELD_SECONDS = 30.0  # of samples that wait to be taken: a few bytes can hold hours of silence
WEBM, FLAC = b"\x1a\x45\xdf\xa3", b"fLaC"  # what one begins with
END = b""  # of a recording


class LiveContainer:
    """One stream of bytes. Its samples depend on these only, not on how they were split; but a
    piece that begins as WebM, MP4, WAV and FLAC do is a new recording behind the one before: a
    browser's recorder was stopped and started again. Ogg is one wherever it begins."""

    def __init__(self, target_rate: int = 16000) -> None:
        self._rate = target_rate
        self._turn = threading.Condition()
        self._pieces: deque[bytes] = deque()  # that FFmpeg has not asked for, and ends between
        self._blocks: list[Samples] = []  # that were not taken
        self._held = 0  # samples in them
        self._head = b""  # of this recording
        self._magic = b""  # of the recording that is fed
        self._cutter = Cutter()
        self._is_closed = False
        self._is_resting = False  # the thread has done all that it could
        self._is_over = False
        self._problem: Exception | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def feed(self, data: bytes) -> None:
        """The next bytes; what they complete is to be taken."""
        if not data:
            return
        pieces: list[bytes] = []
        if self._is_another(data):
            pieces += [self._cutter.end(), END]
            self._magic = b""
        self._magic = self._magic or data[:4]
        rest, *others = self._cutter.feed(data)
        if rest:
            pieces.append(rest)
        for begin in others:
            pieces += [END, begin]
        self._put(*pieces)

    def end(self) -> None:
        """Nothing follows; the rest is to be taken."""
        self._is_closed = True
        rest = self._cutter.end()
        self._put(*([rest] if rest else []), END)

    def _is_another(self, data: bytes) -> bool:
        """Whether a recorder that was started again begins with this piece. Ogg and Matroska hold a
        FLAC's first bytes in their midst."""
        is_wav = data.startswith(b"RIFF") and data[8:12] == b"WAVE"
        is_flac = data.startswith(FLAC) and self._magic == FLAC
        begins = is_wav or is_flac or data.startswith(WEBM) or data[4:8] == b"ftyp"
        return begins and self._magic != b""

    def take(self) -> tuple[Samples, bool]:
        """[n] float32 at `target_rate`, mono, and whether there are more. Raises MediaError: what
        came is no recording, or is damaged."""
        with self._turn:
            self._turn.wait_for(lambda: self._is_resting or self._is_over)
            if not self._blocks and self._problem is not None:
                raise self._problem
            samples = np.concatenate([np.zeros(0, np.float32), *self._blocks])
            more = self._is_full or self._problem is not None
            if self._is_full:
                self._is_resting = False
            self._blocks, self._held = [], 0
            self._turn.notify_all()
            return samples, more

    @property
    def _is_full(self) -> bool:
        return self._held >= HELD_SECONDS * self._rate

    def _put(self, *pieces: bytes) -> None:
        with self._turn:
            self._pieces.extend(pieces)
            self._is_resting = False
            self._turn.notify_all()

    # --- in its thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._next():
                is_empty = True
                try:
                    for samples in self._decoded():
                        is_empty = is_empty and not len(samples)
                        self._give(samples)
                except MediaError:
                    if not (is_empty and self._head.startswith(OGG) and self._is_followed()):
                        raise
        except Exception as error:
            self._problem = error
        with self._turn:
            self._is_over = True
            self._turn.notify_all()

    def _rest(self) -> None:
        """Until something was put or taken; the lock is held."""
        self._is_resting = True
        self._turn.notify_all()
        self._turn.wait_for(lambda: not self._is_resting)

    def _next(self) -> bool:
        """Whether there is one more recording; of the one before nothing is left."""
        with self._turn:
            while self._head and self._pop() != END:
                pass
            self._head = b""
            while not self._pieces or self._pieces[0] == END:
                if self._pieces:
                    self._pieces.popleft()
                elif self._is_closed:
                    return False
                else:
                    self._rest()
            return True

    def _is_followed(self) -> bool:
        """Whether this recording is over, and another one is there."""
        with self._turn:
            return len(self._pieces) > 1 and self._pieces[0] == END

    def _pop(self) -> bytes:
        while not self._pieces:
            self._rest()
        return self._pieces.popleft()

    def read(self, size: int) -> bytes:
        """For FFmpeg: what there is, up to `size` bytes; none at the end of a recording."""
        with self._turn:
            piece = self._pop()
            if piece == END or len(piece) > size:
                self._pieces.appendleft(piece[size:])
            self._head = (self._head + piece[:size])[:HEAD]
            return piece[:size]

    def _give(self, samples: Samples) -> None:
        with self._turn:
            self._blocks.append(samples)
            self._held += len(samples)
            while self._is_full:
                self._rest()

    def _decoded(self) -> Iterator[Samples]:
        """The recording that begins here."""
        plain, head = wav_head(self)
        options: dict[str, str] = OPENING
        file: Readable = Replayed(head, self)
        if plain is not None:
            options, file = OPENING | plain.options, Limited(self, plain.size)
        try:
            container = open_container(
                file, options, buffer_bytes=READ, format=plain and plain.format
            )
        except (av.FFmpegError, OSError, ValueError) as error:
            name, _ = describe(self._head)
            raise MediaError("not_audio", f"{EXPECTED}; got {name}") from error
        with container:
            name, _ = describe(self._head)
            stream = audio_stream(container, name)
            timeline = Timeline(None, min(MAX_PAUSE, longest_pause(container)))
            resampler: StreamResampler | None = None
            for rate, block in decoded_blocks(container, stream, timeline):
                if resampler is None or resampler.source_rate != rate:
                    if resampler is not None:
                        yield resampler.flush()
                    resampler = StreamResampler(rate, self._rate)
                yield resampler.feed(block)
            if resampler is not None:
                yield resampler.flush()
            elif stream.frames:  # by an index that came when they were gone
                raise MediaError("unsupported", f"{EXPECTED}; got {name} with its index at the end")

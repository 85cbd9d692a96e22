"""The windows of a growing segment, as the encoder reads them: full ones are closed for good.

On a CPU log-mel is computed on the way, every frame once. Where encoders are captured as graphs
the device computes it, the open window's anew in every tick, and the host hands it samples.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lookhear.engine.core.audio import Audio
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.paged.request import Medium
from lookhear.engine.paged.sound import EDGE, HOP, OnDevice, Sound, new_digest
from lookhear.engine.qwen3_asr.features import GrowingLogMel

NO_FEATURES = np.zeros(0, np.float32)
SHORTEST = SAMPLE_RATE // 2  # the feature extractor pads shorter clips with silence


class Windows(Protocol):
    """Of one segment. num_closed: windows that are closed."""

    @property
    def num_closed(self) -> int:
        """They come first, and are the same in every tick."""

    def hear(self, audio: Audio, *, is_whole: bool) -> list[Medium]:
        """All windows of the segment, closed ones first. audio: all of it so far, more samples
        than 200; only its end may be new, or missing where it was cut. is_whole: it will not
        grow."""


def filled(audio: Audio) -> Audio:
    """With silence behind it, if it is too short."""
    missing = SHORTEST - len(audio)
    return audio if missing <= 0 else np.concatenate([audio[:], np.zeros(missing, np.float32)])


def num_final(num_samples: int) -> int:
    """Frames that no further audio can change."""
    return max(0, (num_samples - EDGE) // HOP + 1)


class HostWindows:
    """With log-mel computed here. closes: whether full windows are closed; if not, everything is
    read and encoded anew in every tick, as the published recipe does."""

    def __init__(self, dims: AudioDims, *, closes: bool = True) -> None:
        self._dims, self._closes = dims, closes
        self._mel = GrowingLogMel(dims.num_mels)
        self._closed: list[Medium] = []

    @property
    def num_closed(self) -> int:
        """See `Windows`."""
        return len(self._closed)

    def hear(self, audio: Audio, *, is_whole: bool) -> list[Medium]:
        """See `Windows`."""
        size, samples = self._dims.window_frames, audio[:]
        if (known := num_final(len(samples))) < self._mel.num_final:
            # The segment ends earlier than was heard: in an open window, or in a closed one.
            del self._closed[known // size :]
            self._mel.cut(known, len(self._closed) * size)
        self._mel.update(samples)
        while self._closes and (len(self._closed) + 1) * size <= self._mel.num_final:
            first = len(self._closed) * size
            loudest = self._mel.loudest(first + size)
            self._closed.append(self._medium(first, first + size, loudest, is_final=True))
            self._mel.drop(first + size)
        media, loudest = list(self._closed), self._mel.loudest()
        for first in range(len(media) * size, self._mel.num_frames, size):
            last = min(first + size, self._mel.num_frames)
            media.append(self._medium(first, last, loudest, is_final=is_whole))
        return media

    def _medium(self, first: int, last: int, loudest: float, *, is_final: bool) -> Medium:
        features = self._mel.read(first, last, loudest)
        return Medium.of(features, self._dims.num_tokens(last - first), is_final=is_final)


class DeviceWindows:
    """Of samples. Those of windows that grow stay on the device from tick to tick."""

    def __init__(self, dims: AudioDims) -> None:
        self._dims = dims
        self._closed: list[Medium] = []
        self._open: dict[int, OnDevice] = {}  # by the first frame

    @property
    def num_closed(self) -> int:
        """See `Windows`."""
        return len(self._closed)

    def hear(self, audio: Audio, *, is_whole: bool) -> list[Medium]:
        """See `Windows`."""
        size, count = self._dims.window_frames, len(audio) // HOP
        known = min(count, num_final(len(audio)))
        del self._closed[known // size :]
        media = list(self._closed)
        for first in range(len(media) * size, count, size):
            last = min(first + size, count)
            is_closed = first + size <= known
            medium = self._medium(audio, first, last, media, is_whole, is_closed=is_closed)
            media.append(medium)
            if is_closed:
                self._closed.append(medium)
        return media

    def _medium(
        self,
        audio: Audio,
        first: int,
        last: int,
        others: list[Medium],
        is_whole: bool,
        *,
        is_closed: bool,
    ) -> Medium:
        """others: the windows in front of it."""
        before = others[-1] if others else None
        on_device: OnDevice | None = None
        if not is_whole:
            on_device = self._open.pop(first, None) or OnDevice()
            if not is_closed:
                self._open[first] = on_device
        sound = Sound.of(audio, first, last, before.sound if before else None, on_device)
        # A file may be heard again; live speech is this session's, which has the window itself.
        digest = new_digest()
        if is_whole:
            digest = sound.digest(before.digest if before else b"")
        tokens = self._dims.num_tokens(last - first)
        is_final = is_closed or is_whole
        return Medium(NO_FEATURES, tokens, digest, is_final=is_final, sound=sound)

"""The windows of a growing segment, as the encoder reads them: full ones are closed for good.

On a CPU log-mel is computed on the way, every frame once. Where encoders are captured as graphs
the device computes it, the open window's anew in every tick, and the host hands it samples.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.paged.request import Medium
from lookhear.engine.paged.sound import EDGE, HOP, Sound, new_digest
from lookhear.engine.qwen3_asr.features import GrowingLogMel

Samples = NDArray[np.float32]
SHORTEST = SAMPLE_RATE // 2  # the feature extractor pads shorter clips with silence


class Windows(Protocol):
    """Of one segment. num_closed: windows that are closed."""

    @property
    def num_closed(self) -> int:
        """They come first, and are the same in every tick."""

    def hear(self, samples: Samples, *, is_whole: bool) -> list[Medium]:
        """All windows of the segment, closed ones first. samples: all of its audio so far, more
        than 200; only its end may be new, or missing where it was cut. is_whole: it will not
        grow."""


def filled(samples: Samples) -> Samples:
    """With silence behind them, if they are too few."""
    missing = SHORTEST - len(samples)
    return samples if missing <= 0 else np.concatenate([samples, np.zeros(missing, np.float32)])


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

    def hear(self, samples: Samples, *, is_whole: bool) -> list[Medium]:
        """See `Windows`."""
        size = self._dims.window_frames
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
    """Of samples."""

    def __init__(self, dims: AudioDims) -> None:
        self._dims = dims
        self._closed: list[Medium] = []

    @property
    def num_closed(self) -> int:
        """See `Windows`."""
        return len(self._closed)

    def hear(self, samples: Samples, *, is_whole: bool) -> list[Medium]:
        """See `Windows`."""
        size, count = self._dims.window_frames, len(samples) // HOP
        known = min(count, num_final(len(samples)))
        del self._closed[known // size :]
        while (first := len(self._closed) * size) + size <= known:
            self._closed.append(
                self._medium(samples, first, first + size, self._closed, is_whole, is_closed=True)
            )
        media = list(self._closed)
        for first in range(len(media) * size, count, size):
            last = min(first + size, count)
            media.append(self._medium(samples, first, last, media, is_whole))
        return media

    def _medium(
        self,
        samples: Samples,
        first: int,
        last: int,
        others: list[Medium],
        is_whole: bool,
        *,
        is_closed: bool = False,
    ) -> Medium:
        """others: the windows in front of it."""
        before = others[-1] if others else None
        sound = Sound.of(samples, first, last, before.sound if before else None)
        if is_closed and not is_whole:
            # Memory of its own: that of the segment is another whenever it has grown much.
            sound.samples = sound.samples.copy()
        # A file may be heard again; live speech is this session's, which has the window itself.
        digest = new_digest()
        if is_whole:
            digest = sound.digest(before.digest if before else b"")
        tokens = self._dims.num_tokens(last - first)
        is_final = is_closed or is_whole
        return Medium(sound.samples, tokens, digest, is_final=is_final, sound=sound)

"""What decoders hand back, as the gateway uses it. Checked, as far as a wrong answer could harm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.gateway.decoding.parcel import Array, Header, ParcelError

Pixels = NDArray[np.uint8]
Samples = NDArray[np.float32]
Rows = NDArray[np.float32]
Stretches = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Picture:
    """name: hex digest of what was sent, so the same picture has the same name again.
    pixels: [height, width, 3] uint8, RGB; not to be written to."""

    name: str
    pixels: Pixels

    @property
    def num_pixels(self) -> int:
        """Count height times width."""
        return int(self.pixels.shape[0] * self.pixels.shape[1])


@dataclass(frozen=True, eq=False)
class Clip:
    """The chosen frames of a video, all of one size, and when each is shown, in seconds."""

    frames: list[Picture]
    seconds: list[float]


@dataclass(frozen=True, eq=False)
class Recording:
    """samples: [n] float32 mono at 16 kHz; not to be written to. speech: where somebody speaks, as
    (first sample, end); None if nobody looked. is_whole: False of the beginning of one. channels:
    that the file has, whichever of them these are."""

    samples: Samples
    speech: Stretches | None
    is_whole: bool = True
    channels: int = 1


def picture(header: Header, arrays: list[Array]) -> Picture:
    """Of the job "image". Raises ParcelError."""
    return _picture(header["name"], arrays[0])


def clip(header: Header, arrays: list[Array]) -> Clip:
    """Of the job "video". Raises ParcelError."""
    seconds, *frames = arrays
    named = zip(header["names"], frames, strict=True)
    return Clip([_picture(name, pixels) for name, pixels in named], seconds.tolist())


def recording(header: Header, arrays: list[Array]) -> Recording:
    """Of the job "recording". Raises ParcelError."""
    samples, *found = arrays
    told = bool(header["whole"]), int(header["channels"])
    _check(samples.ndim == 1 and samples.dtype == np.float32, "samples", samples)
    if not found:
        return Recording(samples, None, *told)
    _check(found[0].dtype == np.int64 and found[0].shape[1:] == (2,), "stretches", found[0])
    speech = [(int(begin), int(end)) for begin, end in found[0]]
    return Recording(samples, speech, *told)


def embeddings(header: Header, arrays: list[Array]) -> Rows:
    """Of the job "embeddings". Raises ParcelError."""
    rows = arrays[0]
    _check(rows.ndim == 2 and rows.dtype == np.float32, "rows of numbers", rows)
    return rows


def _picture(name: object, pixels: Array) -> Picture:
    if not isinstance(name, str):
        raise ParcelError("expected a picture with a name")
    _check(pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3, "RGB", pixels)
    return Picture(name, pixels)


def _check(ok: bool, expected: str, array: Array) -> None:
    if not ok:
        raise ParcelError(f"expected {expected}; got {array.dtype.name} {array.shape}")

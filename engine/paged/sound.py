"""A window of speech as samples, whose log-mel the device computes. Pure: no tensors.

    reflected |--------------- samples of the segment, of this window ---------------| reflected
    200 before the segment's beginning; 200 behind the end of the audio so far

How loud the loudest frame of a segment was so far changes every later frame (`kernels.log_mel`).
The device finds it out for each window; of those that are final the host keeps it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.paged.digests import DIGEST_BYTES

HOP = 160  # samples from one frame of log-mel to the next
EDGE = 200  # samples that a frame sees on either side of its middle


@dataclass(slots=True, eq=False)
class Sound:
    """samples: those there are, mono at 16 kHz. frames: of log-mel. is_first: whether the segment
    begins with it. before: the window in front of it, in the same segment. loudest: decades, in all
    frames of the segment up to its end; None: it was not encoded yet."""

    samples: NDArray[np.float32]
    frames: int
    is_first: bool = True
    before: Sound | None = None
    loudest: float | None = None

    @classmethod
    def of(cls, samples: NDArray[np.float32], first: int, last: int, before: Sound | None) -> Sound:
        """Frames first .. last of a segment of which these are all the samples so far, more than
        EDGE. A view."""
        start, end = max(0, first * HOP - EDGE), (last - 1) * HOP + EDGE + 1
        return cls(samples[start:end], last - first, is_first=first == 0, before=before)

    @property
    def length(self) -> int:
        """Samples that its frames see, reflected ones included."""
        return (self.frames - 1) * HOP + 2 * EDGE

    def write(self, target: NDArray[np.float32]) -> None:
        """target: [length], what its frames see."""
        samples, lead = self.samples, EDGE if self.is_first else 0
        end = min(lead + len(samples), self.length)
        target[lead:end] = samples[: end - lead]
        if lead:
            target[:lead] = samples[lead:0:-1]
        missing = self.length - end
        if missing:
            target[end:] = samples[-2 : -2 - missing : -1]

    def digest(self, before: bytes) -> bytes:
        """A name of its frames. before: that of the window in front of it."""
        name = hashlib.sha256(before)
        name.update(b"%d %d " % (self.frames, self.is_first))
        name.update(np.ascontiguousarray(self.samples).data)
        return name.digest()[:DIGEST_BYTES]


def new_digest() -> bytes:
    """A name that nobody else has."""
    return os.urandom(DIGEST_BYTES)

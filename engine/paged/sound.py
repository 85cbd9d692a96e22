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
from itertools import count

import numpy as np

from lookhear.engine.core.audio import Audio, Samples
from lookhear.engine.paged.digests import DIGEST_BYTES

HOP = 160  # samples from one frame of log-mel to the next
EDGE = 200  # samples that a frame sees on either side of its middle


@dataclass(slots=True, eq=False)
class OnDevice:
    """What the device holds of a window that grows. place: where; None: nowhere. count: samples
    from the window's beginning on that will stay the same."""

    place: int | None = None
    count: int = 0


@dataclass(slots=True, eq=False)
class Sound:
    """audio: mono at 16 kHz; start, end: which of it is the window's. frames: of log-mel. is_first:
    whether the segment begins with it. before: the window in front of it, in the same segment.
    loudest: decades, in all frames of the segment up to its end; None: it was not encoded yet.
    on_device: of the window, the same one in every tick; None: it is heard once."""

    audio: Audio
    start: int
    end: int
    frames: int
    is_first: bool = True
    before: Sound | None = None
    loudest: float | None = None
    on_device: OnDevice | None = None

    @classmethod
    def of(
        cls,
        audio: Audio,
        first: int,
        last: int,
        before: Sound | None,
        on_device: OnDevice | None = None,
    ) -> Sound:
        """Frames first .. last of a segment of which this is all the audio so far, more than EDGE
        samples."""
        start, end = max(0, first * HOP - EDGE), (last - 1) * HOP + EDGE + 1
        end = min(end, len(audio))
        return cls(audio, start, end, last - first, first == 0, before, None, on_device)

    @property
    def length(self) -> int:
        """Samples that its frames see, reflected ones included."""
        return (self.frames - 1) * HOP + 2 * EDGE

    @property
    def known(self) -> int:
        """Of `length`, those that are no reflection of the last ones: as the audio grows, they stay
        the same."""
        return min((EDGE if self.is_first else 0) + self.end - self.start, self.length)

    def write(self, target: Samples, begin: int = 0) -> None:
        """target: [length - begin], what its frames see from `begin` on."""
        lead, end = EDGE if self.is_first else 0, self.known
        assert begin == 0 or lead <= begin <= end, (begin, lead, end)
        missing, count = self.length - end, self.end - self.start
        # What is reflected behind them may lie in front of what is new.
        first = max(0, min(begin - lead, count - 1 - missing)) if begin else 0
        samples = self.audio[self.start + first : self.end]
        target[max(0, lead - begin) : end - begin] = samples[
            max(0, begin - lead) - first : end - lead - first
        ]
        if lead and not begin:
            target[:lead] = samples[lead:0:-1]
        if missing:
            target[end - begin :] = samples[-2 : -2 - missing : -1]

    def digest(self, before: bytes) -> bytes:
        """A name of its frames. before: that of the window in front of it."""
        name = hashlib.sha256(before)
        name.update(b"%d %d " % (self.frames, self.is_first))
        name.update(np.ascontiguousarray(self.audio[self.start : self.end]).data)
        return name.digest()[:DIGEST_BYTES]


_OURS, _NUMBERS = os.urandom(DIGEST_BYTES - 8), count()


def new_digest() -> bytes:
    """A name that nobody else has."""
    return _OURS + next(_NUMBERS).to_bytes(8, "little")

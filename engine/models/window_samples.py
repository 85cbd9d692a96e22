"""The samples of windows on the device: what a growing window was given stays there, and each tick
sends what is new of it.

    host: what is new of each sound -> pinned rows of HOP samples -> one copy -> rows of the device
    device: | rows for sounds that are heard once | place 0 | place 1 | ... | trash |

Sessions tick several times a second, and a window has many seconds: sent whole, its samples were
the largest part of what a tick costs the host. A place is lent to the window that wants one, and
goes to another when nobody has looked at it for the longest time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.staging import DeviceMemory, Integers, PinnedFloats
from lookhear.engine.paged.sound import EDGE, HOP, OnDevice, Sound

PADDING = 16  # the rows of a step are a multiple of so many: fewer layouts to remember


def rows_of(frames: int) -> int:
    """Rows of HOP samples that so many frames see."""
    return -(-((frames - 1) * HOP + 2 * EDGE) // HOP)


class WindowSamples:
    """frames: of a window at most. passing: rows of all sounds of one pass at most. places: windows
    that are held."""

    def __init__(
        self, memory: DeviceMemory, device: torch.device, *, frames: int, passing: int, places: int
    ) -> None:
        self.max_rows = passing + -passing % PADDING
        self._size = rows_of(frames)
        self._first = self.max_rows
        self._trash = self._first + places * self._size
        self._free = list(range(places - 1, -1, -1))
        self._held: OrderedDict[int, OnDevice] = OrderedDict()  # by place, idlest first
        self._rows = torch.zeros(self._trash + 1, HOP, device=device)
        self._sent = PinnedFloats(memory, self.max_rows * HOP)
        self._count = 0  # rows that were written for the pass

    @property
    def samples(self) -> Tensor:
        """[n] float32, all of them."""
        return self._rows.view(-1)

    def write(self, sounds: Sequence[Sound]) -> tuple[list[int], Integers]:
        """Puts what is new of a pass's sounds where it is sent from. Returns where in `samples`
        each of them begins, and the rows that `send` wants on the device."""
        target, begins, ends = self._sent.begin(), [], 0
        rows: list[Integers] = []
        passing = 0
        for sound in sounds:
            length, row, known = sound.length, passing, 0
            if sound.on_device is None:
                passing += -(-length // HOP)
            else:
                row, known = self._place(sound.on_device)
                known = min(known, sound.known) // HOP
                sound.on_device.count = sound.known
            new = -(-length // HOP) - known
            begins.append(row * HOP)
            rows.append(np.arange(row + known, row + known + new))
            at = ends * HOP
            sound.write(target[at : at + length - known * HOP], known * HOP)
            ends += new
        self._count = ends + -ends % PADDING
        rows.append(np.full(self._count - ends, self._trash))
        return begins, np.concatenate(rows)

    def send(self, rows: Tensor) -> None:
        """What was written, on its way. rows: as `write` said."""
        count = self._count * HOP
        self._sent.send(count)
        self._rows.index_copy_(0, rows, self._sent.target[:count].view(-1, HOP))

    def _place(self, window: OnDevice) -> tuple[int, int]:
        """The window's first row, and how many samples it has there."""
        place = window.place
        if place is None:
            if self._free:
                place = self._free.pop()
            else:
                place, other = self._held.popitem(last=False)
                other.place, other.count = None, 0
            self._held[place] = window
            window.place, window.count = place, 0
        else:
            self._held.move_to_end(place)
        return self._first + place * self._size, window.count

    def forget(self, windows: Sequence[OnDevice]) -> None:
        """They grow no more, or what was sent of them did not arrive: their places are free behind
        what was queued."""
        for window in windows:
            if window.place is not None:
                del self._held[window.place]
                self._free.append(window.place)
                window.place, window.count = None, 0

"""Audio in front of a window that was encoded before and will not change: the encoder reads only
what is behind it.

Whisper's encoder looks both ways, so what is kept here saw no more than the audio of its time. It
is what a sentence knew when it was over, and all that the next one wants to know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lookhear.engine.core.request import Beginning

# Positions in front of the new ones whose log-mel is computed again: a position is made of eight
# frames, and the first frames of a clip mirror its edge.
OVERLAP = 4


@dataclass(frozen=True, slots=True)
class SettledAudio:
    """The first positions of a window. keys_values: of every encoder layer, two of
    [1, positions, heads, head_dim]. cross: of every decoder layer, as `WhisperModel.project_cross`
    gives them."""

    keys_values: list[tuple[Tensor, Tensor]]
    cross: list[Tensor]

    @property
    def positions(self) -> int:
        """How many."""
        return self.cross[0].shape[3]

    @property
    def num_bytes(self) -> int:
        """Of all tensors."""
        tensors = [x for pair in self.keys_values for x in pair] + self.cross
        return sum(x.nbytes for x in tensors)

    @classmethod
    def of(
        cls,
        before: SettledAudio | None,
        keys_values: Sequence[tuple[Tensor, Tensor]],
        cross: Sequence[Tensor],
        row: int,
        count: int,
        *,
        half: bool = False,
    ) -> SettledAudio:
        """Of a row of an encoded batch: what was before it, and its first positions, `count` in
        all. half: what is float32 is kept in float16."""

        def kept(x: Tensor) -> Tensor:
            narrows = half and x.dtype == torch.float32
            # Joined, they are copied in any case; a view would keep the whole batch.
            return x.to(torch.float16 if narrows else x.dtype, copy=before is None)

        new = count - (before.positions if before else 0)
        rows = slice(row, row + 1)
        pairs = [(kept(k[rows, :new]), kept(v[rows, :new])) for k, v in keys_values]
        heard = [kept(x[rows, :, :, :new]) for x in cross]
        if before is None:
            return cls(pairs, heard)
        joined = [
            (torch.cat([old_k, k], dim=1), torch.cat([old_v, v], dim=1))
            for (old_k, old_v), (k, v) in zip(before.keys_values, pairs, strict=True)
        ]
        return cls(joined, [torch.cat(two, 3) for two in zip(before.cross, heard, strict=True)])


class SettledStore:
    """By beginning, as long as somebody holds that; what was not asked for longest goes when all
    together are larger than max_bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: WeakKeyDictionary[Beginning, SettledAudio] = WeakKeyDictionary()

    @property
    def num_bytes(self) -> int:
        """Of all that is kept."""
        return sum(audio.num_bytes for audio in self._held.values())

    def get(self, beginning: Beginning, most: int) -> SettledAudio | None:
        """What is kept of a beginning, if it has no more positions than that."""
        held = self._held.get(beginning)
        if held is None or held.positions > most:
            return None
        self._held[beginning] = self._held.pop(beginning)  # asked for last
        return held

    def put(self, beginning: Beginning, audio: SettledAudio) -> None:
        """Instead of what was kept of it."""
        self._held.pop(beginning, None)
        self._held[beginning] = audio
        while self.num_bytes > self._max_bytes:
            self._held.pop(next(iter(self._held)))

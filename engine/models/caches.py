"""The fixed caches of a running request to an encoder and a decoder (Whisper's, Moonshine's): a row
of the decoder's own keys and values, and a slot of those of its encoded audio. Row 0 and slot 0 are
for what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lookhear.engine.core.free_list import FreeList
from lookhear.engine.core.request import Beginning
from lookhear.engine.device.zeros import zeros

TRASH_ROW = 0
TRASH_SLOT = 0


class KeptRow(NamedTuple):
    """A free row that still holds the keys and values of tokens. no_speech_prob: as in `Result`, of
    the request that fed them."""

    row: int
    tokens: tuple[int, ...]
    no_speech_prob: float


class SelfCache(FreeList):
    """Rows of keys and values, allocated whole to a request for its life. A request that begins as
    the one before it can have that one's row again, if nobody needed it between them.

    data: [layers, 2, rows + 1, heads, context, head_dim], keys then values. Row 0 is the trash row:
    padding may write there, nothing real reads it. A freed row keeps its old contents; the reader
    is told by lengths what is real.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        context: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        assert min(layers, rows, heads, context, head_dim) >= 1
        super().__init__(rows, first=TRASH_ROW + 1, what="row")
        shape = (layers, 2, rows + 1, heads, context, head_dim)
        self.data: Tensor = zeros(shape, dtype, device)
        self.num_rows = rows
        self._kept: WeakKeyDictionary[Beginning, KeptRow] = WeakKeyDictionary()

    def allocate(self) -> int | None:
        """A row that nobody holds: one that nothing is kept in, else the one kept for longest."""
        owners = {kept.row: beginning for beginning, kept in self._kept.items()}
        empty = next((row for row in reversed(self._free) if row not in owners), None)
        if empty is not None:
            return self._lend(empty)
        kept = next((row for row in owners if row in self._free), None)
        if kept is None:
            return None
        del self._kept[owners[kept]]
        return self._lend(kept)

    def keep(self, beginning: Beginning, kept: KeptRow) -> None:
        """A row that is about to be freed may be asked for again."""
        self.assert_held(kept.row)
        self._kept.pop(beginning, None)
        self._kept[beginning] = kept

    def take(self, beginning: Beginning) -> KeptRow | None:
        """Allocates the row that was kept. None: there is none any more."""
        kept = self._kept.pop(beginning, None)
        if kept is None or kept.row not in self._free:
            return None
        self._lend(kept.row)
        return kept


class CrossCache(FreeList):
    """Slots filled once per encoded window and read by every decoder step over it.

    data: [layers, slots + 1, 2, heads, positions, head_dim], keys then values; `data[layer]` is
    what the attention kernels read. lengths: [slots + 1] int64 on the same device, the encoder
    positions that are real in each slot (0 when free). bias: [slots + 1, positions] float32, the
    logarithm of how often each counts; None until one counts more than once. Slot 0 is the trash
    slot. Slots, not pages: the longest window is known, and a slot index is all that a captured
    step has to be given.
    """

    def __init__(
        self,
        slots: int,
        layers: int,
        heads: int,
        positions: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        assert min(slots, layers, heads, positions, head_dim) >= 1
        super().__init__(slots, first=TRASH_SLOT + 1, what="slot")
        shape = (layers, slots + 1, 2, heads, positions, head_dim)
        self.data: Tensor = zeros(shape, dtype, device)
        self.lengths: Tensor = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self.lengths[TRASH_SLOT] = 1  # a softmax over nothing would be NaN
        self.bias: Tensor | None = None
        self.positions = positions

    def free(self, place: int) -> None:
        """Gives back a slot; freeing one that is not held is our bug."""
        super().free(place)
        self.lengths[place] = 0

    def write(
        self,
        slots: Sequence[int],
        projected: Sequence[Tensor],
        lengths: Sequence[int],
        rest: Sequence[Tensor] | None = None,
        sizes: Tensor | None = None,
    ) -> None:
        """Fills slots with the projections of a batch of windows, in the order of the batch.

        projected: per layer [batch, 2, heads, positions, head_dim], from `project_cross`.
        lengths: positions to keep of each window; what is behind them is not copied. rest: per
        layer [1, 2, heads, more positions, head_dim], put behind every window. sizes: [more
        positions], how often each of these counts; None: once.
        """
        assert len(slots) == len(lengths) == projected[0].shape[0], (slots, lengths)
        assert len(projected) == self.data.shape[0], len(projected)
        for index, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
            self.assert_held(slot)
            assert 1 <= length <= min(self.positions, projected[0].shape[3]), length
            for layer, keys_values in enumerate(projected):
                self.data[layer, slot, :, :, :length] = keys_values[index, :, :, :length]
            end = length if rest is None else length + rest[0].shape[3]
            assert end <= self.positions, (length, end)
            self.lengths[slot] = end
            for layer, behind in enumerate(rest or ()):
                self.data[layer, slot, :, :, length:end] = behind[0]
            if sizes is not None and self.bias is None:
                self.bias = torch.zeros(len(self.lengths), self.positions, device=self.data.device)
            if self.bias is not None:
                self.bias[slot, :length] = 0.0
                self.bias[slot, length:end] = 0.0 if sizes is None else sizes.log()

    def fill(self, slots: Tensor, projected: Sequence[Tensor]) -> None:
        """`write` of whole windows where the slots are known on the device alone, for a graph; the
        lengths are the caller's business. slots: [batch] int64, the trash slot for padding."""
        for layer, keys_values in zip(self.data, projected, strict=True):
            length = keys_values.shape[3]
            layer[:, :, :, :length].index_copy_(0, slots, keys_values.to(layer.dtype))

    def check(self) -> None:
        """Raise AssertionError if a slot is lost, or a free one has a length."""
        super().check()
        lengths = self.lengths.tolist()
        assert all(lengths[slot] == 0 for slot in self._free), "a free slot has a length"
        assert all(0 <= length <= self.positions for length in lengths)

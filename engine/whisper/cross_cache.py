"""Keys and values of encoded audio: one fixed slot per window, slot 0 for what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

TRASH_SLOT = 0


class CrossCache:
    """Slots filled once per encoded window and read by every decoder step over it.

    data: [layers, slots + 1, 2, heads, positions, head_dim], keys then values; `data[layer]` is
    what the attention kernels read. lengths: [slots + 1] int64 on the same device, the encoder
    positions that are real in each slot (0 when free). Slot 0 is the trash slot. Slots, not pages:
    the longest window is known, and a slot index is all that a captured step has to be given.
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
        shape = (layers, slots + 1, 2, heads, positions, head_dim)
        self.data: Tensor = torch.zeros(shape, dtype=dtype, device=device)
        self.lengths: Tensor = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self.lengths[TRASH_SLOT] = 1  # a softmax over nothing would be NaN
        self.num_slots = slots
        self.positions = positions
        self._free = list(range(slots, TRASH_SLOT, -1))  # used as a stack: the lowest slot first
        self._used: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self) -> int | None:
        """A slot that nobody holds, of length 0, or None if all are taken."""
        if not self._free:
            return None
        slot = self._free.pop()
        self._used.add(slot)
        return slot

    def free(self, slot: int) -> None:
        """Gives back a slot; freeing one that is not held is our bug."""
        assert slot in self._used, f"slot {slot} is not allocated"
        self._used.remove(slot)
        self._free.append(slot)
        self.lengths[slot] = 0

    def write(
        self, slots: Sequence[int], projected: Sequence[Tensor], lengths: Sequence[int]
    ) -> None:
        """Fills slots with the projections of a batch of windows, in the order of the batch.

        projected: per layer [batch, 2, heads, positions, head_dim], from `project_cross`.
        lengths: positions to keep of each window; the rest is not copied.
        """
        assert len(slots) == len(lengths) == projected[0].shape[0], (slots, lengths)
        assert len(projected) == self.data.shape[0], len(projected)
        for index, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
            assert slot in self._used, f"slot {slot} is not allocated"
            assert 1 <= length <= min(self.positions, projected[0].shape[3]), length
            for layer, keys_values in enumerate(projected):
                self.data[layer, slot, :, :, :length] = keys_values[index, :, :, :length]
            self.lengths[slot] = length

    def fill(self, slots: Tensor, projected: Sequence[Tensor]) -> None:
        """`write` of whole windows where the slots are known on the device alone, for a graph; the
        lengths are the caller's business. slots: [batch] int64, the trash slot for padding."""
        for layer, keys_values in zip(self.data, projected, strict=True):
            length = keys_values.shape[3]
            layer[:, :, :, :length].index_copy_(0, slots, keys_values.to(layer.dtype))

    def check(self) -> None:
        """Every slot is either free (of length 0) or used, none both, the trash slot neither."""
        free = set(self._free)
        assert len(free) == len(self._free), "a slot is free twice"
        assert not free & self._used, "a slot is free and used"
        assert free | self._used == set(range(1, self.num_slots + 1)), "a slot is lost"
        lengths = self.lengths.tolist()
        assert all(lengths[slot] == 0 for slot in free), "a free slot has a length"
        assert all(0 <= length <= self.positions for length in lengths)

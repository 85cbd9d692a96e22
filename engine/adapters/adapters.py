"""The adapters of one model: by name, each of a version, and where their weights stand.

Who uses an adapter holds it. One that is unloaded or replaced goes when nobody holds it any more:
until then its weights stand beside those of the new one, so that no request under way changes.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from lookhear.engine.adapters.parts import AdaptedPart
from lookhear.engine.adapters.peft_folder import PeftAdapter, read_adapter
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.request import RequestError
from lookhear.engine.device.staging import to_device
from lookhear.kernels import Segment

# Of each request, from which on its rows are multiplied by themselves: prompts.
FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class Adapter:
    """name: as a request has it, behind the model's. version: of its content; part of all names in
    caches. slot: its place among those that are there. tower: whether it changes what media become,
    too."""

    name: str
    version: str
    slot: int
    tower: bool
    rank: int


@dataclass(slots=True)
class _Slot:
    """What stands in a place. adapter: until nobody holds it."""

    weights: PeftAdapter
    adapter: weakref.ref[Adapter]


@dataclass(slots=True)
class Adapters:
    """decoder, tower: the parts of the model that may be changed. most: adapters at once, those
    that are on their way out included. max_rank: of each."""

    model: str  # the model's name on the wire
    decoder: AdaptedPart
    tower: AdaptedPart | None
    most: int
    max_rank: int
    _named: dict[str, Adapter] = field(default_factory=dict)
    _slots: dict[int, _Slot] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Of those that can be asked for."""
        return sorted(self._named)

    def of(self, model: str) -> Adapter | None:
        """The one that a request names with the model; None: it names the model alone. Raises
        `RequestError`."""
        name = model.removeprefix(f"{self.model}:")
        if model in (self.model, name):
            return None
        found = self._named.get(name)
        if found is None:
            known = ", ".join(self.names) or "none is loaded"
            raise RequestError(
                "invalid_model", f"model: expected an adapter ({known}), got {name!r}"
            )
        return found

    def load(self, name: str, folder: Path) -> Adapter:
        """Read it; from now on it is the one of that name. Raises `CheckpointError`."""
        self._forget_unused()
        tower = {} if self.tower is None else self.tower.shapes
        weights = read_adapter(folder, {**self.decoder.shapes, **tower}, self.max_rank)
        slot = next((i for i in range(self.most) if i not in self._slots), None)
        if slot is None:
            raise CheckpointError(
                f"{name}: expected at most {self.most} adapters (--max-adapters), those that "
                "requests still use included, got one more"
            )
        adapter = Adapter(
            name, weights.version, slot, not tower.keys().isdisjoint(weights.modules), weights.rank
        )
        self._slots[slot] = _Slot(weights, weakref.ref(adapter))
        self._named[name] = adapter
        self._forget_unused()  # the one before, if nobody holds it
        self._rebuild()
        return adapter

    def unload(self, name: str) -> bool:
        """Nobody can ask for it any more. Returns whether there was one."""
        found = self._named.pop(name, None) is not None
        self._forget_unused()
        self._rebuild()
        return found

    def _forget_unused(self) -> None:
        unused = [slot for slot, held in self._slots.items() if held.adapter() is None]
        for slot in unused:
            del self._slots[slot]

    def _rebuild(self) -> None:
        held = {slot: place.weights.modules for slot, place in self._slots.items()}
        for part in dict.fromkeys((self.decoder, self.tower)):  # Whisper's are one
            if part is not None:
                part.rebuild(held)

    @contextlib.contextmanager
    def decoding(
        self,
        slots: Sequence[int | None],
        counts: Sequence[int],
        size: int,
        *,
        is_padded: bool = False,
    ) -> Iterator[None]:
        """See `BatchAdapters`."""
        used = [slot for slot in slots if slot is not None]
        assert used
        first, last = min(used), max(used) + 1
        whose: torch.Tensor | None = None
        segments: list[Segment] = []
        if None not in slots and last - first == 1:
            pass
        elif not is_padded and sum(counts) >= FEW_ROWS * len(slots):
            at = 0
            for slot, count in zip(slots, counts, strict=True):
                if slot is not None:
                    segments.append(Segment(at, at + count, slot))
                at += count
        else:
            rows = np.zeros((size, last - first), np.float32)
            at = 0
            for slot, count in zip(slots, counts, strict=True):
                if slot is not None:
                    rows[at : at + count, slot - first] = 1.0
                at += count
            whose = to_device(rows, torch.float32, self.decoder.device)
            whose = whose[:, None] if is_padded else whose
        with self.decoder.active(first, last, whose, segments):
            yield

    @contextlib.contextmanager
    def encoding(self, slot: int) -> Iterator[None]:
        """See `BatchAdapters`."""
        assert self.tower is not None
        with self.tower.active(slot, slot + 1, None):
            yield

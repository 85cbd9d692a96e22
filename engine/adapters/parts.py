"""A part of a model with low-rank changes beside its weights: the decoder, or the tower of media.

Its code knows nothing of it: while a batch has adapters, the part's weights are replaced by others
that hold the same matrices, and the changes of all adapters.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from lookhear.engine.adapters.peft_folder import LowRank
from lookhear.engine.models.layers import Placement
from lookhear.kernels import AdaptedWeights, LinearWeights, RowAdapters, Segment, UpPart


class Holder(Protocol):
    """A decoder or an encoder, which reads its weights anew in each pass."""

    weights: Any


class AdaptedPart:
    """modules: linears by their names in the checkpoint. dtype: that changes are computed in."""

    def __init__(
        self,
        holder: Holder,
        modules: Mapping[str, Placement],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._holder = holder
        self._modules = dict(modules)
        self._dtype, self.device = dtype, device
        self._rows = RowAdapters()
        self._plain = holder.weights
        self._adapted: Any = None

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """(out, in) of each linear."""
        return {
            name: (place.out, place.weights.in_features) for name, place in self._modules.items()
        }

    def rebuild(self, held: Mapping[int, Mapping[str, LowRank]]) -> None:
        """held: the changes of each slot, by the names of the linears."""
        by_weights: dict[int, list[str]] = {}
        for name, place in self._modules.items():
            if any(name in changes for changes in held.values()):
                by_weights.setdefault(id(place.weights), []).append(name)
        replaced = {key: self._stacked(names, held) for key, names in by_weights.items()}
        self._adapted = _with(self._plain, replaced) if replaced else None

    def _stacked(
        self, names: list[str], held: Mapping[int, Mapping[str, LowRank]]
    ) -> AdaptedWeights:
        """Of one product, which several linears are put together in: each has columns of its own,
        as many in every slot."""
        base = self._modules[names[0]].weights
        ranks = {name: max(len(c[name].down) for c in held.values() if name in c) for name in names}
        columns, slots = sum(ranks.values()), max(held) + 1
        down = torch.zeros(slots * columns, base.in_features)
        parts: list[UpPart] = []
        begin = 0
        for name in names:
            place, rank = self._modules[name], ranks[name]
            up = torch.zeros(slots * rank, place.out)
            for slot, changes in held.items():
                if (change := changes.get(name)) is not None:
                    own, at = len(change.down), slot * columns + begin
                    down[at : at + own] = change.down
                    up[slot * rank : slot * rank + own] = change.up.T * place.scale
            up = up.to(self.device, self._dtype)
            stop = place.first + place.out
            parts.append(UpPart(begin, begin + rank, place.first, stop, up))
            begin += rank
        values = {f.name: getattr(base, f.name) for f in dataclasses.fields(LinearWeights)}
        return AdaptedWeights(
            **values,
            down=down.to(self.device, self._dtype),
            parts=tuple(parts),
            columns=columns,
            rows=self._rows,
        )

    @contextlib.contextmanager
    def active(
        self, first: int, last: int, whose: Tensor | None, segments: Sequence[Segment] = ()
    ) -> Iterator[None]:
        """See `RowAdapters`."""
        if self._adapted is None:  # they change other parts
            yield
            return
        self._rows.set(first, last, whose, segments)
        self._holder.weights = self._adapted
        try:
            yield
        finally:
            self._holder.weights = self._plain
            self._rows.set(0, 0, None)


def _with(tree: Any, replaced: Mapping[int, LinearWeights]) -> Any:
    """The same weights, but for some products; what holds none of them is shared."""
    if isinstance(tree, LinearWeights):
        return replaced.get(id(tree), tree)
    if isinstance(tree, list | tuple):
        return type(tree)(_with(entry, replaced) for entry in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        values = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if f.init}
        return type(tree)(**{name: _with(value, replaced) for name, value in values.items()})
    return tree

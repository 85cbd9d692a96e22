"""What requests and passes know of adapters: low-rank changes of a model, for some of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class Adapter(Protocol):
    """See `engine.adapters.adapters.Adapter`."""

    @property
    def version(self) -> str:
        """Part of the names in caches."""

    @property
    def slot(self) -> int:
        """Where its weights stand."""

    @property
    def tower(self) -> bool:
        """Whether it changes what media become, too."""


class BatchAdapters(Protocol):
    """See `engine.adapters.adapters.Adapters`."""

    def decoding(
        self,
        slots: Sequence[int | None],
        counts: Sequence[int],
        size: int,
        *,
        is_padded: bool = False,
    ) -> AbstractContextManager[None]:
        """While the decoder reads counts[i] rows of the adapter in slots[i], one behind another,
        and padding up to size. is_padded: each of these rows is a text of its own, [rows, queries]
        of them."""

    def encoding(self, slot: int) -> AbstractContextManager[None]:
        """While media of that adapter alone are encoded."""

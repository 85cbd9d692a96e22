"""What passes over a paged cache ask of a decoder, and of the requests that it is fed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from lookhear.engine.core.request import Phase
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.paged.mrope import PromptPositions
from lookhear.engine.paged.request import PagedRequest

Added = tuple[Tensor, Tensor]  # places [k], rows [k, n * width]: see `Qwen3Model.forward`


class Fed(Protocol):
    """What a pass asks of a running request: see `PagedSequence`."""

    @property
    def key(self) -> str:
        """Its owner's."""

    @property
    def request(self) -> PagedRequest:
        """As it was made."""

    @property
    def phase(self) -> Phase:
        """Media are put in while the prompt is read."""

    @property
    def row(self) -> int:
        """Whose block table is its own."""

    @property
    def fed(self) -> int:
        """Tokens in the cache."""

    @property
    def unread(self) -> int:
        """Tokens that lie on the device only."""

    @property
    def positions(self) -> PromptPositions | None:
        """None where they are the places."""

    def queries(self, count: int) -> list[int]:
        """The next tokens to feed."""


Work = tuple[Fed, int]


class PagedDims(Protocol):
    """What a pass asks of a decoder's geometry."""

    @property
    def vocab(self) -> int:
        """Tokens that have an embedding."""

    @property
    def width(self) -> int:
        """Of an embedding."""

    @property
    def rope_sections(self) -> tuple[int, int, int] | None:
        """M-RoPE's pairs per axis; None: plain positions."""


class PagedDecoder(Protocol):
    """See `Qwen3Model`."""

    device: torch.device
    dtype: torch.dtype

    @property
    def dims(self) -> PagedDims:
        """Of config.json."""

    @property
    def vocab(self) -> int:
        """Logits per token."""

    def new_cache(self, num_blocks: int) -> PagedCache:
        """A cache of its shape; num_blocks: the trash block included."""

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens: [n] int64. Returns [n, width]."""

    def forward(
        self, inputs: Tensor, batch: PagedBatch, cache: PagedCache, added: Added | None = None
    ) -> Tensor:
        """One step over packed tokens; returns hidden [tokens, width]. See `Qwen3Model.forward`."""

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width]. Returns [n, vocab] float32."""

    def pooled(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width]. Returns [n, width of a vector] float32, in memory of its own."""

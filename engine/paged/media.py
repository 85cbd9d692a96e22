"""Embeddings of the media of running requests: found in a cache, or encoded, many in one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from lookhear.engine.core.request import Phase
from lookhear.engine.device.graphs import Graphs
from lookhear.engine.paged.encoder_cache import EncoderCache
from lookhear.engine.paged.passes import PagedDecoder
from lookhear.engine.paged.request import Medium, PagedSequence


class PagedModel(Protocol):
    """A checkpoint as the runner sees it. end_tokens: ids that end an answer."""

    @property
    def decoder(self) -> PagedDecoder:
        """All but the encoder."""

    @property
    def end_tokens(self) -> tuple[int, ...]:
        """Ids that end an answer."""

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per medium [num_tokens, width], or several times the width: what stands for the
        placeholders, then what is added inside the decoder. A function of that medium alone."""


class MediaEncoder(Protocol):
    """Encodes as a model does, by graphs of its own. See `AudioGraphs`."""

    graphs: Graphs

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """See `PagedModel.encode`; in memory that the next call may write."""

    def unread(self) -> list[Callable[[], None]]:
        """Of what was encoded since the last call: what reads back what the host wants to know of
        it, to be called when the step is waited for."""


class MediaEmbeddings:
    """held: of each running request by its key, one tensor per medium. cache_bytes: of embeddings
    that may be asked for again. counts: of passes by kind, where eager ones are counted."""

    def __init__(
        self,
        model: PagedModel,
        encoder: MediaEncoder | None,
        cache_bytes: int,
        counts: Counter[str],
    ) -> None:
        self._model = model
        self._encoder = encoder
        self._cache = EncoderCache(cache_bytes)
        self._counts = counts
        self.held: dict[str, list[Tensor]] = {}
        self.num_encoded = 0  # tokens

    def stats(self) -> dict[str, int]:
        """How full the cache is, and whether it helped."""
        cache = self._cache
        return {
            "encoder_cache_bytes": cache.num_bytes,
            "encoder_cache_hits": cache.num_hits,
            "encoder_cache_misses": cache.num_misses,
            "encoder_cache_evictions": cache.num_evicted,
        }

    def encode(self, sequences: Sequence[PagedSequence]) -> None:
        """Embeddings of the media of prompts that begin; those of all of them in one batch."""
        missing: dict[bytes, Medium] = {}
        begun = [
            sequence
            for sequence in sequences
            if sequence.phase is Phase.PREFILL
            and sequence.request.media
            and sequence.key not in self.held
        ]
        if not begun:
            return
        known: dict[bytes, Tensor] = {}
        for sequence in begun:
            for start, medium in sequence.request.media:
                if start + medium.num_tokens <= sequence.fed:
                    continue  # its keys and values are in the cache
                output = self._cache.find(medium.digest)
                if output is None:
                    missing[medium.digest] = medium
                else:
                    known[medium.digest] = output
        if missing:
            if self._encoder is None:
                self._counts["encode eager"] += 1
            outputs = (self._encoder or self._model).encode(list(missing.values()))
            self.num_encoded += sum(medium.num_tokens for medium in missing.values())
            # The encoder may write there again. What nobody will ask for again is copied in one go,
            # what is kept has memory of its own.
            passing = [m for m in missing.values() if not m.is_final]
            if passing:
                of = dict(zip(missing, outputs, strict=True))
                copy = torch.cat([of[m.digest] for m in passing])
                parts = torch.split(copy, [len(of[m.digest]) for m in passing])
                known.update(zip((m.digest for m in passing), parts, strict=True))
            for medium, output in zip(missing.values(), outputs, strict=True):
                if medium.is_final:
                    known[medium.digest] = output.clone()
                    self._cache.add(medium.digest, known[medium.digest])
        empty = torch.zeros(0, device=self._model.decoder.device)
        for sequence in begun:
            media = sequence.request.media
            self.held[sequence.key] = [known.get(m.digest, empty) for _, m in media]

    def unread(self) -> list[Callable[[], None]]:
        """See `MediaEncoder`."""
        return [] if self._encoder is None else self._encoder.unread()

    def release(self, key: str) -> None:
        """The request is over."""
        self.held.pop(key, None)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self._cache.check()

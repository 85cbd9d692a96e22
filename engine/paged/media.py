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
        self._lent: list[str] = []  # whose embeddings lie where the encoder may write again
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

    def begin_step(self) -> None:
        """What the last step read where the encoder wrote it is not needed any more."""
        self._lent.clear()

    def encode(self, work: Sequence[tuple[PagedSequence, int]]) -> None:
        """Embeddings of the media of prompts that begin; those of all of them in one batch. work:
        with how many tokens each is fed in this step."""
        missing: dict[bytes, Medium] = {}
        begun = [
            (sequence, count)
            for sequence, count in work
            if sequence.phase is Phase.PREFILL
            and sequence.request.media
            and sequence.key not in self.held
        ]
        if not begun:
            return
        known: dict[bytes, Tensor] = {}
        kept: set[bytes] = set()  # asked for again by a later step
        for sequence, count in begun:
            is_read = count >= sequence.num_known
            for start, medium in sequence.request.media:
                if start + medium.num_tokens <= sequence.fed:
                    continue  # its keys and values are in the cache
                output = self._cache.find(medium.digest)
                if output is not None:
                    known[medium.digest] = output
                    continue
                missing[medium.digest] = medium
                if medium.is_final or not is_read:
                    kept.add(medium.digest)
        if missing:
            self._encode(missing, kept, known)
        empty = torch.zeros(0, device=self._model.decoder.device)
        for sequence, _ in begun:
            media = sequence.request.media
            self.held[sequence.key] = [known.get(m.digest, empty) for _, m in media]
            if missing:
                self._lent.append(sequence.key)

    def _encode(
        self, missing: dict[bytes, Medium], kept: set[bytes], known: dict[bytes, Tensor]
    ) -> None:
        """The encoder may write there again, so what is kept gets memory of its own. Most is read
        in the pass that follows, and stays where it is."""
        for key in self._lent:  # in the same step the encoder failed for others beside them
            self.held[key] = [output.clone() for output in self.held[key]]
        self._lent.clear()
        if self._encoder is None:
            self._counts["encode eager"] += 1
        outputs = (self._encoder or self._model).encode(list(missing.values()))
        for (digest, medium), output in zip(missing.items(), outputs, strict=True):
            self.num_encoded += medium.num_tokens
            known[digest] = output.clone() if digest in kept else output
            if medium.is_final:
                self._cache.add(digest, known[digest])

    def unread(self) -> list[Callable[[], None]]:
        """See `MediaEncoder`."""
        return [] if self._encoder is None else self._encoder.unread()

    def release(self, key: str) -> None:
        """The request is over."""
        self.held.pop(key, None)
        if key in self._lent:
            self._lent.remove(key)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self._cache.check()

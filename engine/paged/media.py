"""Embeddings of the media of running requests: found in a cache, or encoded, many in one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from lookhear.engine.core.adapting import BatchAdapters
from lookhear.engine.core.request import Phase
from lookhear.engine.device.graphs import Graphs
from lookhear.engine.device.staging import to_device
from lookhear.engine.paged.decoder import PagedDecoder
from lookhear.engine.paged.encoder_cache import EncoderCache
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
    that may be asked for again. counts: of passes by kind, where eager ones are counted. adapters:
    change the encoder for media of those who have one. parts: see `PagedPasses`."""

    def __init__(
        self,
        model: PagedModel,
        encoder: MediaEncoder | None,
        cache_bytes: int,
        counts: Counter[str],
        adapters: BatchAdapters | None = None,
        parts: int = 1,
    ) -> None:
        self._model = model
        self._parts = parts
        self._encoder = encoder
        self._cache = EncoderCache(cache_bytes)
        self._counts = counts
        self._adapters = adapters
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
        missing: dict[int | None, dict[bytes, Medium]] = {}  # by the adapter's slot
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
                name, slot = _named(sequence, medium)
                if medium.is_given:
                    known[name] = self._given(medium)
                    continue
                output = self._cache.find(name)
                if output is not None:
                    known[name] = output
                    continue
                missing.setdefault(slot, {})[name] = medium
                if medium.is_final or not is_read:
                    kept.add(name)
        for slot, media in missing.items():
            self._encode(media, slot, kept, known)
        empty = torch.zeros(0, device=self._model.decoder.device)
        for sequence, _ in begun:
            names = [_named(sequence, medium)[0] for _, medium in sequence.request.media]
            self.held[sequence.key] = [known.get(name, empty) for name in names]
            if missing:
                self._lent.append(sequence.key)

    def _given(self, medium: Medium) -> Tensor:
        """Nothing is added inside of the decoder to what is no picture's."""
        decoder = self._model.decoder
        rows = to_device(medium.features, decoder.dtype, decoder.device)
        missing = self._parts * decoder.dims.width - rows.shape[1]
        return torch.nn.functional.pad(rows, (0, missing)) if missing else rows

    def _encode(
        self,
        missing: dict[bytes, Medium],
        slot: int | None,
        kept: set[bytes],
        known: dict[bytes, Tensor],
    ) -> None:
        """All of one adapter, or of none, in one batch. The encoder may write there again, so what
        is kept gets memory of its own. Most is read in the pass that follows, and stays where it
        is."""
        for key in self._lent:  # in the same step the encoder failed for others beside them
            self.held[key] = [output.clone() for output in self.held[key]]
        self._lent.clear()
        if self._encoder is None or slot is not None:
            self._counts["encode eager"] += 1
        if slot is None:
            outputs = (self._encoder or self._model).encode(list(missing.values()))
        else:
            assert self._adapters is not None
            with self._adapters.encoding(slot):
                outputs = self._model.encode(list(missing.values()))
        for (name, medium), output in zip(missing.items(), outputs, strict=True):
            self.num_encoded += medium.num_tokens
            known[name] = output.clone() if name in kept else output
            if medium.is_final:
                self._cache.add(name, known[name])

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


def _named(sequence: PagedSequence, medium: Medium) -> tuple[bytes, int | None]:
    """What its embeddings are called, and the slot of the adapter that changes them; None: none."""
    adapter = sequence.request.adapter
    if adapter is None or not adapter.tower:
        return medium.digest, None
    return medium.digest + adapter.version.encode(), adapter.slot

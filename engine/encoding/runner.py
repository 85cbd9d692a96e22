"""Runs a tower that is alone: media of many engines in one batch, each of itself alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.core.request import Phase
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated
from lookhear.engine.core.single_pass import SinglePass
from lookhear.engine.device.staging import Readback
from lookhear.engine.encoding.request import EncodingRequest
from lookhear.engine.paged.encoder_cache import EncoderCache
from lookhear.engine.paged.media import MediaEncoder
from lookhear.engine.paged.request import Medium

Encoding = SinglePass[EncodingRequest]
Work = Sequence[tuple[Encoding, int]]


class Tower(Protocol):
    """The encoder of a checkpoint, without what reads its embeddings."""

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """See `PagedModel.encode`."""


class EncodingRunner:
    """See `engine.core.runner.Runner`. media_encoder: the same tower by graphs, if passes are
    captured. cache_bytes: of embeddings that another engine may ask for, too, on the host."""

    free_tokens = 1 << 30  # media take no room of a cache

    def __init__(self, tower: Tower, media_encoder: MediaEncoder | None, cache_bytes: int) -> None:
        self._tower = tower
        self._graphed = media_encoder
        self._cache = EncoderCache(cache_bytes)
        self._num_tokens = 0

    def capture(self, progress: Callable[[float], None]) -> None:
        """The graphs, if there are any, before the first step. progress: the share that is done."""
        if self._graphed is not None:
            self._graphed.graphs.capture(progress)

    def place(self, request: EncodingRequest) -> Encoding:
        """Nothing is computed."""
        return SinglePass(request)

    def release(self, sequence: Encoding) -> None:
        """It holds nothing."""

    def forget(self, key: str) -> None:
        """Nothing is kept for its owner."""

    @torch.inference_mode()
    def launch(self, work: Work) -> Finish:
        """All media in one batch; a failure is repeated one by one."""
        begun: list[tuple[Encoding, Readback]] = []

        def run(group: Sequence[Encoding]) -> None:
            found = self._encoded([sequence.request.medium for sequence in group])
            begun.extend(
                (sequence, Readback(found[sequence.request.medium.digest])) for sequence in group
            )

        sequences = [sequence for sequence, _ in work]
        failures = [
            Failure.of(sequence.key, error, "the picture could not be encoded")
            for sequence, error in isolated(sequences, run)
        ]
        for sequence in sequences:
            sequence.is_read = True

        def finish() -> list[Failure]:
            for sequence, readback in begun:
                rows = readback.array()
                if sequence.phase is Phase.DONE:
                    continue
                if not np.isfinite(rows).all():
                    failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                    continue
                sequence.take(np.array(rows, np.float32))  # memory of its own
                self._cache.add(sequence.request.medium.digest, torch.from_numpy(sequence.rows))
            return failures

        return finish

    def _encoded(self, media: Sequence[Medium]) -> dict[bytes, Tensor]:
        """By digest, float32, where no later pass writes."""
        found: dict[bytes, Tensor] = {}
        missing: dict[bytes, Medium] = {}
        for medium in media:
            if (rows := self._cache.find(medium.digest)) is not None:
                found[medium.digest] = rows
            else:
                missing[medium.digest] = medium
        if missing:
            outputs = (self._graphed or self._tower).encode(list(missing.values()))
            for (digest, medium), output in zip(missing.items(), outputs, strict=True):
                found[digest] = output.to(torch.float32, copy=True)
                self._num_tokens += medium.num_tokens
        return found

    def stats(self) -> dict[str, int]:
        """Since the start, and how full the cache is."""
        cache = self._cache
        return {
            "media_tokens_encoded": self._num_tokens,
            "encoder_cache_bytes": cache.num_bytes,
            "encoder_cache_hits": cache.num_hits,
            "encoder_cache_misses": cache.num_misses,
            "encoder_cache_evictions": cache.num_evicted,
        }

    def check(self, num_running: int) -> None:
        """Raise AssertionError if an invariant is broken."""
        self._cache.check()

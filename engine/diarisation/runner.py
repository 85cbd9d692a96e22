"""Runs a diariser: the chunks of each recording in their order, with what it remembers of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from lookhear.engine.core.request import Phase
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated
from lookhear.engine.core.single_pass import SinglePass
from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.diarisation.request import ChunkRequest
from lookhear.engine.diarisation.speaker_cache import CacheRules, SpeakerCache
from lookhear.engine.models.frames import FrameFilters, log_mel_frames
from lookhear.engine.models.nemotron3_diarisation import DiarisationModel

Chunk = SinglePass[ChunkRequest]
Work = Sequence[tuple[Chunk, int]]


class DiarisationRunner:
    """See `engine.core.runner.Runner`. What is remembered is kept by owner, until that is gone."""

    free_tokens = 1 << 30  # chunks take no room of a cache

    def __init__(self, model: DiarisationModel, rules: CacheRules, filters: FrameFilters) -> None:
        self._model = model
        self._rules = rules
        self._filters = filters
        self._caches: dict[str, SpeakerCache] = {}
        self._num_chunks = 0

    def capture(self, progress: Callable[[float], None]) -> None:
        """There are no graphs: chunks are of many lengths."""

    def place(self, request: ChunkRequest) -> Chunk:
        """Nothing is computed."""
        return SinglePass(request)

    def release(self, sequence: Chunk) -> None:
        """What is remembered stays for the next chunk."""

    def forget(self, key: str) -> None:
        """The recording is over, or nobody wants it."""
        self._caches.pop(key, None)

    def launch(self, work: Work) -> Finish:
        """One pass for each chunk: they are of different recordings, and of different lengths."""
        passes: list[tuple[Chunk, Readback]] = []

        def run(group: Sequence[Chunk]) -> None:
            (sequence,) = group
            passes.append((sequence, self._read(sequence.request)))

        failures = [
            Failure.of(failed.key, error, "a recording could not be diarised")
            for sequence, _ in work
            for failed, error in isolated([sequence], run)
        ]
        for sequence, _ in work:
            sequence.is_read = True

        def finish() -> list[Failure]:
            for sequence, readback in passes:
                probabilities = readback.array()
                if sequence.phase is Phase.DONE:
                    continue  # it was dropped while this step was on its way
                if not torch.from_numpy(probabilities).isfinite().all():
                    failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                    continue
                sequence.take(probabilities)
                self._num_chunks += 1
            return failures

        return finish

    @torch.inference_mode()
    def _read(self, request: ChunkRequest) -> Readback:
        """Nothing is waited for. [frames of the chunk, speakers] probabilities."""
        model = self._model
        stretch = to_device(request.stretch, torch.float32, model.device)
        places = model.embed(log_mel_frames(stretch, self._filters))
        cache = self._caches.get(request.key)
        if cache is None:
            stack, silence = model.dims.stack, model.weights.silence
            cache = SpeakerCache(self._rules, request.chunking, silence, stack)
            self._caches[request.key] = cache
        remembered = cache.places
        read = torch.cat([remembered, places])
        logits = model.score(read)
        cache.update(read, logits, request.behind, request.chunk)
        first = (len(remembered) + request.behind) * model.dims.stack
        return Readback(logits[first : first + request.frames].sigmoid())

    def stats(self) -> dict[str, int]:
        """Since the start."""
        return {"diarised_chunks": self._num_chunks}

    def check(self, num_running: int) -> None:
        """There is no room that could leak."""

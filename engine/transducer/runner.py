"""Runs a transducer: more of each recording, with what it remembers of it; all side by side.

What is remembered of a recording is kept by its owner's name, until that is gone or the recording
is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated, warm_up
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.frames import FFT_SIZE, HOP, FrameFilters, log_mel_frames
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.request import TransducerRequest, TransducerSequence

FAILED = "the audio could not be heard"
Group = Sequence[TransducerSequence]


class Model(Protocol):
    """What hears and writes, see `TransducerModel`. encoder: begins a recording. predictor: begins
    a text, a dataclass, and writes more of several."""

    @property
    def dims(self) -> Any:
        """Of config.json."""

    @property
    def encoder(self) -> Any:
        """See above, as below."""

    @property
    def predictor(self) -> Any: ...

    @property
    def device(self) -> torch.device: ...

    def encode(
        self, pieces: Sequence[Piece], chunk: int, prompts: Sequence[int] | None = None
    ) -> tuple[list[Tensor], list[Any]]: ...


@dataclass(slots=True)
class _Memory:
    """Of one recording."""

    encoder: Any
    predictor: Any


@dataclass(frozen=True, slots=True)
class _Heard:
    """A sequence whose places are known, or will be when the device is done."""

    sequence: TransducerSequence
    memory: _Memory
    places: Tensor


class TransducerRunner:
    """See `engine.core.runner.Runner`. chunks: the sizes that will be asked for. Passes are eager
    on a GPU, too."""

    free_tokens = 1 << 30  # memory is of owners, who are counted elsewhere

    def __init__(self, model: Model, filters: FrameFilters, chunks: Sequence[int] = ()) -> None:
        self._model = model
        self._chunks = chunks
        self._filters = filters
        self._memories: dict[str, _Memory] = {}
        self._num_passes = 0

    def capture(self, progress: Callable[[float], None]) -> None:
        """There are no graphs; kernels are compiled before anybody waits for them."""
        frames = self._model.dims.encoder.stack
        silence = np.zeros((frames - 1) * HOP + FFT_SIZE, np.float32)
        drawn = (
            TransducerRequest(
                "", Priority.BATCH, silence, frames, chunk, is_first=True, is_last=True, begin=0
            )
            for chunk in self._chunks
        )
        warm_up(self, list(drawn))

    def place(self, request: TransducerRequest) -> TransducerSequence:
        """Nothing is computed."""
        return TransducerSequence(request, request.frames // self._model.dims.encoder.stack)

    def release(self, sequence: TransducerSequence) -> None:
        """What is remembered stays for the owner's next request."""
        if sequence.request.is_last:
            self.forget(sequence.key)

    def forget(self, key: str) -> None:
        """The recording is over, or nobody wants it."""
        self._memories.pop(key, None)

    def launch(self, work: Sequence[tuple[TransducerSequence, int]]) -> Finish:
        """Encodes all of it; those whose chunks are of one size together. What is written is only
        known by waiting for the device, token after token, which is done when the step is read."""
        failures: list[Failure] = []
        heard: list[_Heard] = []
        by_chunk: dict[int, list[TransducerSequence]] = {}
        for sequence, _ in work:
            sequence.is_heard = True
            by_chunk.setdefault(sequence.request.chunk, []).append(sequence)
        for group in by_chunk.values():
            for failed, error in isolated(group, lambda part: heard.extend(self._encode(part))):
                failures.append(Failure.of(failed.key, error, FAILED))

        def finish() -> list[Failure]:
            # Some were dropped while this step was on its way.
            left = [one for one in heard if one.sequence.phase is not Phase.DONE]
            for one, error in isolated(left, lambda part: failures.extend(self._write(part))):
                failures.append(Failure.of(one.sequence.key, error, FAILED))
            return failures

        return finish

    def _encode(self, group: Group) -> list[_Heard]:
        requests = [sequence.request for sequence in group]
        chunk = requests[0].chunk
        memories = []
        for request in requests:
            memory = None if request.is_first else self._memories[request.key]
            if memory is None:
                model = self._model
                memory = _Memory(model.encoder.begin(chunk), model.predictor.begin())
            memories.append(memory)
        pieces = [
            Piece(memory.encoder, self._frames(request), request.is_last)
            for request, memory in zip(requests, memories, strict=True)
        ]
        default = self._model.dims.prompt
        prompts = [default if r.prompt is None else r.prompt for r in requests]
        places, states = self._model.encode(pieces, chunk, prompts)
        heard = []
        for sequence, memory, own, state in zip(group, memories, places, states, strict=True):
            memory.encoder = state
            self._memories[sequence.key] = memory
            heard.append(_Heard(sequence, memory, own))
        return heard

    def _frames(self, request: TransducerRequest) -> Tensor:
        """[frames, mels]."""
        device = self._model.device
        if not request.frames:
            return torch.zeros(0, self._model.dims.encoder.num_mels, device=device)
        stretch = to_device(request.stretch, torch.float32, device)
        return log_mel_frames(stretch, self._filters)

    def _write(self, group: Sequence[_Heard]) -> list[Failure]:
        # Copies: if this fails in the middle, each begins again where it was.
        states = [replace(one.memory.predictor) for one in group]
        texts = self._model.predictor.write(states, [one.places for one in group])
        failures = []
        for one, state, written in zip(group, states, texts, strict=True):
            one.memory.predictor = state
            self._num_passes += 1
            if not all(map(math.isfinite, written.logprobs)):
                failures.append(Failure(one.sequence.key, "model_error", NOT_FINITE))
                continue
            one.sequence.take(written.tokens, written.logprobs, written.places, written.passes)
        return failures

    def stats(self) -> dict[str, int]:
        """Since the start; now: recordings that are remembered."""
        return {"transducer_passes": self._num_passes, "transducer_memories": len(self._memories)}

    def check(self, num_running: int) -> None:
        """Memories go with their owners: `forget` is called for each."""

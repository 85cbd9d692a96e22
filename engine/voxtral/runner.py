"""Runs a Voxtral Realtime: the next steps of each recording, all side by side.

What is remembered of a recording is kept by its owner's name, until that is gone or the recording
is over: what the convolutions read next, and the blocks of two caches (`engine.voxtral.windows`).
New frames are encoded when a request begins; then every step of the engine reads one step of 80 ms
of each, or all in which the text is known already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated, warm_up
from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.voxtral.encoder import StemState
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.request import Marks, VoxtralRequest, VoxtralSequence, Writing
from lookhear.engine.voxtral.sound import HOP, STEP, WINDOW
from lookhear.engine.voxtral.stack import Delays, batch_of
from lookhear.engine.voxtral.windows import Window, Windows
from lookhear.kernels import greedy, mel_filters
from lookhear.kernels.log_mel import log10_mel, normalised

FAILED = "the audio could not be heard"
ENCODED = 64  # steps of one recording in one pass of the encoder: a file's piece takes several
Group = Sequence[VoxtralSequence]


@dataclass(slots=True)
class _Memory:
    """Of one recording. audio, text: what the encoder and the decoder see. places: that are still
    to be encoded; steps: that were, of the request that runs."""

    stem: StemState
    audio: Window
    text: Window
    writing: Writing
    places: Tensor | None = None
    steps: list[Tensor] = field(default_factory=list)


class VoxtralRunner:
    """See `engine.core.runner.Runner`. loudest: decades, from which quiet sounds are cut off.
    blocks: of the encoder's and the decoder's cache, a trash block in each. Passes are eager on a
    GPU, too."""

    free_tokens = 1 << 30  # who finds no free block takes one that is hardly missed

    def __init__(
        self, model: VoxtralModel, marks: Marks, loudest: float, blocks: tuple[int, int]
    ) -> None:
        self._model = model
        self._marks = marks
        self._loudest = loudest
        filters = mel_filters(model.dims.num_mels)
        # Mostly zeros: as a sparse matrix it takes a fraction of the time on a CPU.
        self._filters = (
            filters.to_sparse() if model.device.type == "cpu" else filters.to(model.device)
        )
        stacks = model.encoder.stack, model.decoder.stack
        self._caches = [stack.new_cache(n) for stack, n in zip(stacks, blocks, strict=True)]
        self._audio, self._text = (
            Windows(n, stack.dims.window) for stack, n in zip(stacks, blocks, strict=True)
        )
        self._memories: dict[str, _Memory] = {}
        self._num_passes = self._num_encoded = 0

    def capture(self, progress: Callable[[float], None]) -> None:
        """There are no graphs; kernels are compiled before anybody waits for them."""
        steps = 4
        silence = np.zeros(steps * STEP - HOP + WINDOW, np.float32)
        drawn = VoxtralRequest(
            "", Priority.BATCH, silence, steps, begin=0, is_last=True, delay=1, left=1
        )
        warm_up(self, [drawn])

    def place(self, request: VoxtralRequest) -> VoxtralSequence:
        """Nothing is computed."""
        assert request.steps > 0, request
        if request.begin == 0:
            self.forget(request.key)
            self._memories[request.key] = _Memory(
                self._model.encoder.begin(),
                self._audio.begin(),
                self._text.begin(),
                Writing(self._marks.pad),
            )
        return VoxtralSequence(request, self._memories[request.key].writing, self._marks)

    def release(self, sequence: VoxtralSequence) -> None:
        """What is remembered stays for the owner's next request."""
        if sequence.request.is_last:
            self.forget(sequence.key)

    def forget(self, key: str) -> None:
        """The recording is over, or nobody wants it."""
        if (memory := self._memories.pop(key, None)) is not None:
            self._audio.end(memory.audio)
            self._text.end(memory.text)

    # --- steps -----------------------------------------------------------------------------------

    def launch(self, work: Sequence[tuple[VoxtralSequence, int]]) -> Finish:
        """Encodes what is new, then one pass of the decoder over all."""
        failures: list[Failure] = []
        read: list[tuple[VoxtralSequence, int]] = []
        told: list[tuple[list[tuple[VoxtralSequence, int]], Readback]] = []
        fresh = [sequence for sequence, _ in work if sequence.encoded == 0]
        failed = set()
        for sequence, error in isolated(fresh, self._encode):
            failures.append(Failure.of(sequence.key, error, FAILED))
            failed.add(sequence.key)
        for sequence, count in work:
            if sequence.key not in failed:
                sequence.is_busy = True
                read.append((sequence, count))
        for (sequence, _), error in isolated(
            read, lambda part: told.append((list(part), self._read(part)))
        ):
            failures.append(Failure.of(sequence.key, error, FAILED))

        def finish() -> list[Failure]:
            for part, sampled in told:
                failures.extend(self._take(part, sampled.read()))
            return failures

        return finish

    def _take(
        self, part: Sequence[tuple[VoxtralSequence, int]], told: Sequence[float]
    ) -> list[Failure]:
        failures = []
        tokens, logprobs = told[: len(part)], told[len(part) :]
        for (sequence, count), token, logprob in zip(part, tokens, logprobs, strict=True):
            sequence.is_busy = False
            if sequence.phase is Phase.DONE:  # dropped while this step was on its way
                continue
            if not math.isfinite(logprob):
                failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                continue
            if sequence.take(count, int(token), logprob):
                self._memories[sequence.key].steps = []
        return failures

    # --- the encoder -----------------------------------------------------------------------------

    def _encode(self, group: Group) -> None:
        """All that is new of these. What fails and is done again goes on where it was."""
        self._join([one for one in group if self._memories[one.key].places is None])
        memories = [self._memories[sequence.key] for sequence in group]
        most = ENCODED * self._model.dims.places
        while waiting := [one for one in memories if one.places is not None and len(one.places)]:
            parts = [one.places[:most] for one in waiting if one.places is not None]
            work = [(one.audio, len(part)) for one, part in zip(waiting, parts, strict=True)]
            batch = batch_of(self._audio.place(work), self._model.device)
            steps = self._model.encoder.encode(parts, batch, self._caches[0])
            self._audio.move(work)
            self._num_encoded += 1
            counts = [len(part) // self._model.dims.places for part in parts]
            for one, own in zip(waiting, torch.split(steps, counts), strict=True):
                assert one.places is not None
                one.steps.append(own)
                one.places = one.places[most:]
        for sequence, memory in zip(group, memories, strict=True):
            memory.places = None
            memory.steps = [torch.cat(memory.steps)]
            sequence.encoded = sequence.request.steps

    def _join(self, group: Group) -> None:
        """Places of what is new; those of as many steps in one pass."""
        alike: dict[int, list[VoxtralSequence]] = {}
        for sequence in group:
            alike.setdefault(sequence.request.steps, []).append(sequence)
        for part in alike.values():
            memories = [self._memories[sequence.key] for sequence in part]
            frames = self._frames([sequence.request for sequence in part])
            places, left = self._model.encoder.join([memory.stem for memory in memories], frames)
            for memory, own, stem in zip(memories, places, left, strict=True):
                memory.steps, memory.places, memory.stem = [], own, stem

    def _frames(self, requests: Sequence[VoxtralRequest]) -> Tensor:
        """Of requests of as many steps: [n, frames, mels]."""
        samples = np.stack([request.stretch for request in requests])
        stretches = to_device(samples, torch.float32, self._model.device)
        with torch.inference_mode():
            decades = log10_mel(stretches, self._filters)
            return normalised(decades, self._loudest).transpose(1, 2)

    # --- the decoder -----------------------------------------------------------------------------

    def _read(self, part: Sequence[tuple[VoxtralSequence, int]]) -> Readback:
        """What is written behind the steps that are read, and how sure that is."""
        decoder, device = self._model.decoder, self._model.device
        memories = [self._memories[sequence.key] for sequence, _ in part]
        work = [(memory.text, count) for memory, (_, count) in zip(memories, part, strict=True)]
        batch = batch_of(self._text.place(work), device)
        steps, inputs, which, last = list[Tensor](), list[int](), list[int](), list[int]()
        known = sorted({sequence.request.delay for sequence, _ in part})
        for memory, (sequence, count) in zip(memories, part, strict=True):
            steps.append(memory.steps[0][sequence.fed : sequence.fed + count])
            inputs += sequence.inputs(count)
            which += [known.index(sequence.request.delay)] * count
            last.append(len(inputs) - 1)
        scales = torch.stack([decoder.scales(delay) for delay in known])
        told = to_device([*inputs, *which, *last], torch.int64, device)
        tokens, whose, ends = torch.split(told, [len(inputs), len(which), len(last)])
        with torch.inference_mode():
            hidden = decoder.forward(
                tokens, torch.cat(steps), Delays(scales, whose), batch, self._caches[1]
            )
            logits = decoder.logits(hidden[ends])
            # There is an end where there is no more sound, not before.
            open_rows = [row for row, (one, _) in enumerate(part) if not one.request.is_last]
            if open_rows:
                rows = to_device(open_rows, torch.int64, device)
                logits[rows, self._marks.end] = -torch.inf
            chosen, logprobs = greedy(logits)
            sampled = torch.cat([chosen.double(), logprobs.double()])
        choice = Readback(sampled)
        self._text.move(work)  # behind all that may fail, or it would be done twice
        self._num_passes += 1
        return choice

    # --- for others ------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Since the start: passes, and blocks that were given up too soon. Now: recordings that are
        remembered, and their blocks."""
        both = (self._audio, self._text)
        return {
            "voxtral_passes": self._num_passes,
            "voxtral_encoder_passes": self._num_encoded,
            "voxtral_memories": len(self._memories),
            "voxtral_blocks": sum(windows.num_held for windows in both),
            "evicted_blocks": sum(windows.num_forgotten for windows in both),
        }

    def check(self, num_running: int) -> None:
        """Memories go with their owners: `forget` is called for each."""
        self._audio.check()
        self._text.check()

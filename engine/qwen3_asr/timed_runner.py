"""Runs Qwen3-ASR with its forced aligner: texts on the paged runner, then the times of their words.

A second model in the same process: the text of one request is timed in the steps in which others
are decoded, all texts that are complete in one pass, as far as a step's tokens reach. Of a request
nothing is kept for the next but, on a CPU, what the aligner's encoder made of full windows: a live
segment is asked about in every tick, and grows only at its end. The encoder that the texts are of
has other weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from lookhear.engine.core.request import Phase
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated
from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.models.qwen3_aligner import Qwen3AlignerModel
from lookhear.engine.paged.encoder_cache import EncoderCache
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.qwen3_asr.timed import Aligner, Question, TimedRequest, TimedSequence
from lookhear.kernels import log_mel, mel_filters

AnyWork = tuple[PagedSequence | TimedSequence, int]
NO_LABEL = -1  # of a marker whose logits are not finite
KNOWN_BYTES = 64 * 2**20  # of windows that were encoded before


class TimedRunner:
    """paged: runs the texts. model, aligner: of the same checkpoint."""

    def __init__(self, paged: PagedRunner, model: Qwen3AlignerModel, aligner: Aligner) -> None:
        self._paged = paged
        self._model = model
        self._aligner = aligner
        self._filters = mel_filters(aligner.dims.num_mels).to(model.decoder.device)
        self._num_timed = 0
        # Elsewhere the host would have to wait for the log-mel to know it again.
        is_here = model.decoder.device.type == "cpu"
        self._known = EncoderCache(KNOWN_BYTES) if is_here else None

    @torch.inference_mode()
    def capture(self, progress: Callable[[float], None]) -> None:
        """Before the first step: the paged runner's graphs. progress: the share that is done."""
        self._paged.capture(progress)
        if self._model.decoder.device.type == "cuda":  # no kernel is compiled while somebody waits
            self._ask([self._aligner.trial()]).read()

    # --- room ------------------------------------------------------------------------------------

    @property
    def free_tokens(self) -> int:
        """Places of the paged cache that a new request could reserve now."""
        return self._paged.free_tokens

    def place(self, request: PagedRequest | TimedRequest) -> PagedSequence | TimedSequence:
        """See `PagedRunner.place`."""
        if isinstance(request, PagedRequest):
            return self._paged.place(request)
        return TimedSequence(request, self._paged.place(request.decoding))

    def release(self, sequence: PagedSequence | TimedSequence) -> None:
        """The request is over, whatever the reason."""
        self._paged.release(_decoding(sequence))

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._paged.forget(key)

    # --- steps -----------------------------------------------------------------------------------

    @torch.inference_mode()
    def launch(self, work: Sequence[AnyWork]) -> Finish:
        """One pass over the texts that are not complete, one over those that are."""
        timed = [s for s, _ in work if isinstance(s, TimedSequence)]
        complete = [s for s in timed if s.phase is Phase.ALIGN]
        written = [s for s in timed if s.phase is not Phase.ALIGN]
        texts = [(_decoding(s), count) for s, count in work if s.phase is not Phase.ALIGN]
        finish = self._paged.launch(texts)
        passes: list[tuple[Sequence[TimedSequence], Readback]] = []
        failures: list[Failure] = []

        def run(group: Sequence[TimedSequence]) -> None:
            questions = [s.question for s in group if s.question is not None]
            passes.append((group, self._ask(questions)))

        for sequence, error in isolated(complete, run):
            failures.append(Failure.of(sequence.key, error, "words could not be timed"))
        for sequence in complete:
            sequence.is_asked = True
        return partial(self._finish, finish, written, passes, failures)

    def _ask(self, questions: Sequence[Question]) -> Readback:
        """One pass over several texts; nothing is read back. [markers of all of them] labels."""
        device = self._model.decoder.device
        audios = [
            log_mel(to_device(question.samples[None], torch.float32, device), self._filters)[0]
            for question in questions
        ]
        logits = torch.cat(self._model.classify([q.tokens for q in questions], audios, self._known))
        is_finite = logits.isfinite().all(-1)
        return Readback(torch.where(is_finite, logits.argmax(-1), NO_LABEL).double())

    def _finish(
        self,
        finish: Finish,
        written: Sequence[TimedSequence],
        passes: Sequence[tuple[Sequence[TimedSequence], Readback]],
        launched: list[Failure],
    ) -> list[Failure]:
        """Read what was chosen and move the sequences on. written: whose texts the step fed.
        launched: those that failed before."""
        failures = finish() + launched
        for group, readback in passes:
            failures += self._take(group, [int(label) for label in readback.read()])
        gone = {failure.key for failure in failures}
        for sequence in written:
            if sequence.key not in gone:
                sequence.complete(self._aligner)
        return failures

    def _take(self, group: Sequence[TimedSequence], labels: Sequence[int]) -> list[Failure]:
        failures: list[Failure] = []
        at = 0
        for sequence in group:
            question = sequence.question
            assert question is not None
            mine = labels[at : at + 2 * len(question.words)]
            at += len(mine)
            if sequence.phase is Phase.DONE:
                continue  # it was dropped while this step was on its way
            if NO_LABEL in mine:
                failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                continue
            sequence.take(self._aligner.times(question, mine))
            self._num_timed += 1
        return failures

    # --- checks ----------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Those of the paged runner. timed: texts whose words were timed."""
        return {**self._paged.stats(), "timed_texts": self._num_timed}

    def check(self, num_running: int) -> None:
        """Raise AssertionError if anything leaked."""
        self._paged.check(num_running)
        if self._known is not None:
            self._known.check()


def _decoding(sequence: PagedSequence | TimedSequence) -> PagedSequence:
    return sequence.decoding if isinstance(sequence, TimedSequence) else sequence

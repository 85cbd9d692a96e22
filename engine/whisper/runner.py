"""Runs Whisper requests: encode, fill a cross-attention slot, decode all rows together.

A request holds one row (its decoder context) and one slot (its encoded audio) from `place` to
`release`. How a pass is carried out: `WhisperPasses`.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lookhear import kernels
from lookhear.engine.core.adapting import BatchAdapters
from lookhear.engine.core.request import Phase, Priority, RequestError
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated, warm_up
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.models.caches import KeptRow
from lookhear.engine.sampling.expected import Told
from lookhear.engine.sampling.telling import Telling, with_forced
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.alignment import ALIGNED_ROWS, WhisperAlignment
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.passes import Wanted, WhisperLogits, WhisperPasses
from lookhear.engine.whisper.positions import LogitsRow, Purpose
from lookhear.engine.whisper.readings import Readings
from lookhear.engine.whisper.request import WhisperRequest, WhisperSequence
from lookhear.engine.whisper.rules import Rule, TokenRules
from lookhear.kernels.log_mel import HOP

log = logging.getLogger(__name__)


class Drafter(Protocol):
    """Who guesses how texts go on: see `WhisperDrafter`."""

    def draft(self, sequences: Seq[WhisperSequence]) -> None:
        """Of those that go on behind a step that was read, `guess` for those that may."""

    def end(self, sequence: WhisperSequence) -> None:
        """The request is over."""

    def forget(self, key: str) -> None:
        """The owner is gone."""

    def stats(self) -> dict[str, int]:
        """Counters, for the metrics."""

    def check(self) -> None:
        """Raise AssertionError if anything leaked."""


class WhisperRunner:
    """max_rows: requests decoded together at most. windows, pads, adapters: see `WhisperPasses`."""

    free_tokens = 0  # rows are fixed: nothing is reserved by length

    def __init__(
        self,
        model: WhisperModel,
        tokenizer: WhisperTokenizer,
        max_rows: int,
        *,
        windows: Seq[int] = (),
        pads: bool = False,
        acceleration: Acceleration = CPU,
        adapters: BatchAdapters | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._max_rows = max_rows
        self._rules = TokenRules(tokenizer, model.dims.vocab, model.device)
        self._readings = Readings(tokenizer, model.device)
        self._alignment_heads = tokenizer.alignment_heads or [
            # Nobody says which heads follow the audio: those of the later layers mostly do.
            (layer, head)
            for layer in range(model.dims.decoder_layers // 2, model.dims.decoder_layers)
            for head in range(model.dims.decoder_heads)
        ]
        self._self_cache = model.new_self_cache(max_rows)
        self._cross_cache = model.new_cross_cache(max_rows)
        self.passes = WhisperPasses(
            model,
            self._rules,
            self._self_cache,
            self._cross_cache,
            windows=windows,
            pads=pads,
            acceleration=acceleration,
            adapters=adapters,
        )

        self.drafter: Drafter | None = None

    @property
    def full_window(self) -> int:
        """Samples that the encoder sees at most."""
        return self._model.dims.max_frames * HOP

    @torch.inference_mode()
    def capture(self, progress: Callable[[float], None]) -> None:
        """The graphs, if there are any, before the first step. progress: the share that is done."""
        graphs = self.passes.graphs
        graphs.capture(progress)
        if self._model.device.type == "cuda":
            windows = self.passes.windows or (self._model.dims.max_frames * HOP,)
            warm_up(self, _silences(self._tokenizer.sot, windows))
            graphs.num_runs.clear()

    # --- steps -----------------------------------------------------------------------------------

    def place(self, request: WhisperRequest) -> WhisperSequence:
        """Give the request a row and a slot; the scheduler has seen to it that there are some.

        Raises `RequestError` if its prompt has a token that only the tokenizer knows.
        """
        if (token := max(request.head)) >= self._model.dims.vocab:
            known = f"expected tokens that the model has, below {self._model.dims.vocab}"
            raise RequestError("invalid_value", f"prompt: {known}; its tokenizer makes {token}")
        kept = None if request.segment is None else self._self_cache.take(request.segment)
        row = self._self_cache.allocate() if kept is None else kept.row
        slot = self._cross_cache.allocate()
        assert row is not None and slot is not None, "the scheduler admitted more than fits"
        limit = self._model.dims.context
        try:
            sequence = WhisperSequence(request, self._tokenizer.eot, limit, row=row, slot=slot)
        except Exception:
            self._self_cache.free(row)
            self._cross_cache.free(slot)
            raise
        if kept is not None:
            sequence.skip(kept.tokens, kept.no_speech_prob)
        return sequence

    @torch.inference_mode()
    def launch(self, work: Seq[tuple[WhisperSequence, int]]) -> Finish:
        """Encode the audio of those that begin, equal windows together; then feed every sequence.

        Prompts and single tokens run apart, so that no decode is padded to somebody's prompt.
        """
        failures: list[Failure] = []
        alike: dict[tuple[int, bool, int | None], list[WhisperSequence]] = defaultdict(list)
        for sequence, _ in work:
            if not sequence.is_encoded:
                alike[self.passes.shape_of(sequence.request)].append(sequence)
        for group in alike.values():
            for sequence, error in isolated(group, self._encode):
                failures.append(Failure.of(sequence.key, error, "the audio could not be encoded"))
        gone = {failure.key for failure in failures}
        ready = [sequence for sequence, _ in work if sequence.key not in gone]
        passes: list[WhisperPass] = []
        complete = [s for s in ready if s.phase is Phase.ALIGN]
        going_on = [s for s in ready if s.phase not in (Phase.DECODE, Phase.ALIGN)]
        for group in (
            [s for s in going_on if s.num_known > 1],
            [s for s in going_on if s.num_known == 1],  # behind which something is guessed
            [s for s in ready if s.phase is Phase.DECODE],
        ):
            for sequence, error in isolated(group, lambda part: passes.append(self._forward(part))):
                failures.append(Failure.of(sequence.key, error, "the audio could not be decoded"))
        alignments: list[WhisperAlignment] = []
        for first in range(0, len(complete), ALIGNED_ROWS):
            group = complete[first : first + ALIGNED_ROWS]
            for sequence, error in isolated(
                group, lambda part: alignments.append(self._align(part))
            ):
                failures.append(Failure.of(sequence.key, error, "words could not be timed"))
        return partial(self._finish, passes, alignments, failures)

    def _encode(self, group: Seq[WhisperSequence]) -> None:
        self.passes.encode(group)
        for sequence in group:
            sequence.is_encoded = True

    def _forward(self, group: Seq[WhisperSequence]) -> WhisperPass:
        """One decoder pass, and what is chosen behind it; nothing is read back."""
        wanted = [(i, row) for i, s in enumerate(group) for row in s.logits_rows()]
        logits = self.passes.decode(group, wanted)
        tokens, logprobs, told = self._chosen(group, wanted, logits)
        self.passes.keep(tokens)
        starts = self._readings.starts(wanted, logits.values)
        closings = self._readings.closings(group, logits.values)
        choice = Readback(torch.stack([tokens.double(), logprobs.double()]))
        for sequence in group:  # behind all that may fail, or it would be done twice
            sequence.launch()
        return WhisperPass(list(group), wanted, choice, starts, told, closings)

    def _chosen(
        self, group: Seq[WhisperSequence], wanted: Wanted, logits: WhisperLogits
    ) -> tuple[Tensor, Tensor, Telling | None]:
        """Tokens [wanted] under the rules of their rows, and their log probabilities; and what is
        told where words are expected."""
        requests = [group[i].request for i, _ in wanted]
        drawn = [
            n
            for n, (i, row) in enumerate(wanted)
            if row.purpose is Purpose.TOKEN
            and requests[n].temperature > 0
            and group[i].trials is None
        ]
        expecting = [group[i].expecting for i, _ in wanted]
        is_told = any(each is not None for each in expecting)
        goes_on = not any(
            row.purpose is not Purpose.TOKEN
            or _is_first(group[i], row)
            or not row.ends
            or row.barred is not None
            for i, row in wanted
        )
        is_plain = goes_on and not is_told and not any(r.timestamps for r in requests)
        if logits.text is not None and is_plain and not drawn:
            return *logits.text, None
        scores = self._scores(group, wanted, logits.values)
        tokens, logprobs = kernels.greedy(scores)
        device = self._model.device
        if drawn:
            index = to_device(drawn, torch.int64, device)
            places = [len(requests[n].prefix) + wanted[n][1].num_said for n in drawn]
            theirs = kernels.sample(
                scores[index],
                to_device([requests[n].temperature for n in drawn], torch.float32, device),
                to_device([requests[n].seed for n in drawn], torch.int64, device),
                to_device(places, torch.int64, device),
            )
            tokens.index_copy_(0, index, theirs[0])
            logprobs.index_copy_(0, index, theirs[1])
        if not is_told:
            return tokens, logprobs, None
        tokens = with_forced(tokens, [row.forced for _, row in wanted])
        others = any(each is not None and each.is_doubted for each in expecting)
        firsts = [row.firsts for _, row in wanted]
        return tokens, logprobs, Telling(scores, tokens, firsts, others=others)

    @torch.inference_mode()
    def _finish(
        self,
        passes: Seq[WhisperPass],
        alignments: Seq[WhisperAlignment],
        failures: list[Failure],
    ) -> list[Failure]:
        """failures: of those that failed when the step was launched."""
        for done in passes:
            failures += self._absorb(done)
        for alignment in alignments:
            alignment.finish()
        if self.drafter is not None:
            going = [s for done in passes for s in done.group if s.phase is Phase.DECODE]
            for sequence, error in isolated(going, self.drafter.draft):
                log.warning("drafts: none for %s: %s", sequence.key, error)
        return failures

    def _absorb(self, done: WhisperPass) -> list[Failure]:
        """Read what was chosen, and move the sequences on."""
        group, choice = done.group, done.choice.array()
        starts = iter(() if done.starts is None else done.starts.array())
        expected = None if done.told is None else done.told.read()
        chosen: list[list[int]] = [[] for _ in group]
        scored: list[list[float]] = [[] for _ in group]
        closing = None if done.closings is None else done.closings.array().tolist()
        told: list[list[Told]] = [[] for _ in group]
        closings: list[list[float]] = [[] for _ in group]
        heard: dict[int, tuple[float, dict[int, float]]] = {}
        bad: set[int] = set()
        for n, ((i, row), token, logprob) in enumerate(
            zip(done.wanted, *choice.tolist(), strict=True)
        ):
            start = next(starts) if row.purpose is Purpose.START else None
            if group[i].phase in (Phase.ALIGN, Phase.DONE):
                continue  # it ended while this step was on its way
            if logprob != logprob:
                bad.add(i)
            elif start is not None:
                languages = zip(self._tokenizer.languages.values(), start[1:].tolist(), strict=True)
                heard[i] = min(1.0, math.exp(start[0])), dict(languages)
            else:
                chosen[i].append(int(token))
                scored[i].append(logprob)
                if expected is not None:
                    told[i].append(expected[n])
                if closing is not None and group[i].request.closes:
                    closings[i].append(closing[n])
        for i, sequence in enumerate(group):
            if i in bad or sequence.phase in (Phase.ALIGN, Phase.DONE):
                continue
            if i not in heard or sequence.absorb_start(*heard[i]):
                sequence.absorb(chosen[i], scored[i], told[i], closings[i])
        return [Failure(group[i].key, "model_error", NOT_FINITE) for i in sorted(bad)]

    def _scores(self, group: Seq[WhisperSequence], wanted: Wanted, logits: Tensor) -> Tensor:
        """logits [n, vocab] under the rules of their rows."""
        if any(not row.ends or row.barred is not None for _, row in wanted):
            logits = logits.clone()
            for n, (i, row) in enumerate(wanted):
                ends = () if row.ends else (self._tokenizer.eot, *group[i].request.end_tokens)
                barred = () if row.barred is None else (row.barred,)
                logits[n, [*ends, *barred]] = -math.inf
        scores = self._rules.masked(logits, [_rule(group[i], row) for i, row in wanted])
        stamped = [
            n
            for n, (i, row) in enumerate(wanted)
            if row.purpose is Purpose.TOKEN and group[i].request.timestamps
        ]
        if not stamped:
            return scores
        histories = [wanted[n][1].history for n in stamped]
        if len(stamped) == len(wanted):
            return self._rules.timestamps(logits, histories)
        index = to_device(stamped, torch.int64, self._model.device)
        theirs = self._rules.timestamps(logits[index], histories)
        if scores is logits:  # which stay as they are
            scores = logits.clone()
        return scores.index_copy_(0, index, theirs)

    def _align(self, group: Seq[WhisperSequence]) -> WhisperAlignment:
        staging = self.passes.graphs.staging
        with self.passes.adapting(group):
            return WhisperAlignment(
                self._model, self._cross_cache, self._alignment_heads, staging, group
            )

    # --- ends ------------------------------------------------------------------------------------

    def forget(self, key: str) -> None:
        """Nothing is kept between the requests of an owner, but how well its text is guessed."""
        if self.drafter is not None:
            self.drafter.forget(key)

    def stats(self) -> dict[str, int]:
        """How passes were carried out: see `Graphs.stats`."""
        drafts = {} if self.drafter is None else self.drafter.stats()
        return {**self.passes.graphs.stats(), **drafts}

    def release(self, sequence: WhisperSequence) -> None:
        """The request is over, whatever the reason: its row and slot are free again."""
        if self.drafter is not None:
            self.drafter.end(sequence)
        segment, generated = sequence.request.segment, sequence.generated
        if segment is not None and generated.stop is not None:
            kept = KeptRow(sequence.row, sequence.earlier(), sequence.no_speech_prob)
            self._self_cache.keep(segment, kept)
        self._self_cache.free(sequence.row)
        self._cross_cache.free(sequence.slot)

    def check(self, num_running: int) -> None:
        """Raise AssertionError if rows or slots leaked."""
        self._self_cache.check()
        self._cross_cache.check()
        if self.drafter is not None:
            self.drafter.check()
        assert self._max_rows - self._self_cache.num_free == num_running
        assert self._max_rows - self._cross_cache.num_free == num_running


def _rule(sequence: WhisperSequence, row: LogitsRow) -> Rule:
    """Where it has timestamps, more than one mask says which may come."""
    if row.purpose is Purpose.START or sequence.request.timestamps:
        return Rule.PLAIN
    return Rule.FIRST if _is_first(sequence, row) else Rule.TEXT


def _is_first(sequence: WhisperSequence, row: LogitsRow) -> bool:
    """Whether nothing was said before the wanted token."""
    return row.num_said == 0 and not sequence.request.prefix


def _silences(start_token: int, windows: Seq[int]) -> list[WhisperRequest]:
    """Silence of every window's length in samples, drawn with a temperature, words timed."""
    return [
        WhisperRequest(
            "", Priority.BATCH, np.zeros(window, np.float32), window, (start_token,), None, False,
            (), max_new_tokens=2, temperature=1.0, align=True,
        )
        for window in windows
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class WhisperPass:
    """One launched decoder pass. wanted: (index into group, position) of each row of logits.
    choice: [2, rows] a token for each, and its log probability. starts, closings:
    see `Readings`. told: where words are expected."""

    group: list[WhisperSequence]
    wanted: list[tuple[int, LogitsRow]]
    choice: Readback
    starts: Readback | None
    told: Telling | None
    closings: Readback | None

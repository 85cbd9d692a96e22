"""Runs Moonshine requests: encode each recording, fill a slot, decode all rows together.

A request holds one row (its decoder's keys and values) and one slot (those of its audio) from
`place` to `release`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from lookhear import kernels
from lookhear.engine.core.request import UNREAD, Beginning, Phase, Priority
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated, warm_up
from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.moonshine.decoder import MoonshineDecoder
from lookhear.engine.moonshine.request import MoonshineRequest, MoonshineSequence

Group = Sequence[MoonshineSequence]


@dataclass(frozen=True, slots=True)
class _Pass:
    """One launched decoder pass. counts: of each, the rows of logits. choice: [2, rows] a token for
    each, and its log probability."""

    group: Group
    counts: list[int]
    choice: Readback


class MoonshineRunner:
    """See `engine.core.runner.Runner`. max_rows: requests decoded together at most. longest:
    samples of one, at most. Passes are eager on a GPU, too: the encoder's are of many lengths."""

    free_tokens = 0  # rows are fixed: nothing is reserved by length

    def __init__(self, model: MoonshineDecoder, max_rows: int, longest: int) -> None:
        self._model = model
        self._max_rows = max_rows
        self._self_cache = model.new_self_cache(max_rows)
        self._cross_cache = model.new_cross_cache(max_rows, model.num_positions(longest))
        # The token that each row sampled last, for steps that are launched before it is read.
        self._last = torch.zeros(max_rows + 1, dtype=torch.int64, device=model.device)
        # Of segments that somebody still speaks.
        self._settled: WeakKeyDictionary[Beginning, Tensor] = WeakKeyDictionary()
        self._num_passes = 0

    def capture(self, progress: Callable[[float], None]) -> None:
        """There are no graphs; kernels are compiled before anybody waits for them."""
        silence = np.zeros(16_000, np.float32)
        drawn = (
            MoonshineRequest("", Priority.BATCH, silence, max_new_tokens=2, temperature=heat)
            for heat in (0.0, 1.0)
        )
        warm_up(self, list(drawn))

    # --- steps -----------------------------------------------------------------------------------

    def place(self, request: MoonshineRequest) -> MoonshineSequence:
        """Give the request a row and a slot; the scheduler has seen to it that there are some."""
        row, slot = self._self_cache.allocate(), self._cross_cache.allocate()
        assert row is not None and slot is not None, "the scheduler admitted more than fits"
        dims = self._model.dims
        try:
            return MoonshineSequence(
                request, dims.start, dims.end_tokens, self._model.context, row=row, slot=slot
            )
        except Exception:
            self._self_cache.free(row)
            self._cross_cache.free(slot)
            raise

    @torch.inference_mode()
    def launch(self, work: Sequence[tuple[MoonshineSequence, int]]) -> Finish:
        """Encode the audio of those that begin; then feed every sequence. Prompts and single tokens
        run apart, so that no decode is padded to somebody's prompt."""
        failures: list[Failure] = []
        for sequence, _ in work:
            if not sequence.is_encoded:
                for failed, error in isolated([sequence], self._encode):
                    what = "the audio could not be encoded"
                    failures.append(Failure.of(failed.key, error, what))
        ready = [sequence for sequence, _ in work if sequence.is_encoded]
        passes: list[_Pass] = []
        for group in (
            [s for s in ready if len(s.queries()) > 1],
            [s for s in ready if len(s.queries()) == 1],
        ):
            for sequence, error in isolated(group, lambda part: passes.append(self._forward(part))):
                failures.append(Failure.of(sequence.key, error, "the audio could not be decoded"))
        return partial(self._finish, passes, failures)

    def _encode(self, group: Group) -> None:
        (sequence,) = group
        samples = to_device(sequence.request.samples, torch.float32, self._model.device)
        beginning = sequence.request.beginning
        settled = None if beginning is None else self._settled.get(beginning)
        encoded, known = self._model.encode_more(samples, settled)
        if beginning is not None and known is not None:
            self._settled[beginning] = known
        projected = self._model.project_cross(encoded)
        self._cross_cache.write([sequence.slot], projected, [len(encoded)])
        sequence.is_encoded = True

    def _forward(self, group: Group) -> _Pass:
        """One decoder pass, and what is chosen behind it; nothing is read back."""
        device = self._model.device
        fed = [sequence.queries() for sequence in group]
        longest = max(map(len, fed))
        tokens = np.zeros((len(group), longest), np.int64)
        for line, (sequence, queries) in enumerate(zip(group, fed, strict=True)):
            # What nobody has read lies on the device, by its row.
            tokens[line, : len(queries)] = [
                UNREAD - sequence.row if token == UNREAD else token for token in queries
            ]
        columns = np.array(
            [
                tokens.ravel(),
                *(np.repeat(values, longest) for values in self._lengths(group, fed)),
            ],
            np.int64,
        )
        on_device = to_device(columns, torch.int64, device).view(5, len(group), longest)
        given = on_device[0]
        known = torch.where(given < 0, self._last[(UNREAD - given).clamp(min=0)], given)
        rows_held, past, new, slots = (on_device[i, :, 0].contiguous() for i in range(1, 5))
        own, cross = self._self_cache, self._cross_cache
        hidden = self._model.decode(known, rows_held, past, new, slots, own, cross)
        counts = [len(sequence.draft) + 1 for sequence in group]
        wanted = [
            line * longest + len(queries) - count + i
            for line, (queries, count) in enumerate(zip(fed, counts, strict=True))
            for i in range(count)
        ]
        logits = self._model.logits(hidden.flatten(0, 1)[to_device(wanted, torch.int64, device)])
        chosen, logprobs = self._chosen(group, counts, logits)
        rows = to_device([sequence.row for sequence in group], torch.int64, device)
        ends = to_device(np.cumsum(counts) - 1, torch.int64, device)
        self._last.index_copy_(0, rows, chosen[ends])
        choice = Readback(torch.stack([chosen.double(), logprobs.double()]))
        for sequence in group:  # behind all that may fail, or it would be done twice
            sequence.launch()
        self._num_passes += 1
        return _Pass(group, counts, choice)

    def _lengths(self, group: Group, fed: list[list[int]]) -> list[list[int]]:
        """Rows, tokens in them, tokens fed, slots."""
        return [
            [sequence.row for sequence in group],
            [sequence.fed for sequence in group],
            [len(queries) for queries in fed],
            [sequence.slot for sequence in group],
        ]

    def _chosen(self, group: Group, counts: list[int], logits: Tensor) -> tuple[Tensor, Tensor]:
        """Of [n, vocab], counts of each: tokens and their log probabilities."""
        of_rows = [(s, i) for s, count in zip(group, counts, strict=True) for i in range(count)]
        ends = list(self._model.dims.end_tokens)
        for n, (sequence, i) in enumerate(of_rows):
            if not sequence.may_end(i):
                logits[n, ends] = -math.inf
        tokens, logprobs = kernels.greedy(logits)
        drawn = [n for n, (sequence, _) in enumerate(of_rows) if sequence.request.temperature > 0]
        if drawn:
            device = logits.device
            index = to_device(drawn, torch.int64, device)
            heats = [of_rows[n][0].request.temperature for n in drawn]
            # The place of the token in its text, drafts or none.
            places = [of_rows[n][0].fed + of_rows[n][0].num_known + of_rows[n][1] for n in drawn]
            theirs = kernels.sample(
                logits[index],
                to_device(heats, torch.float32, device),
                to_device([0] * len(drawn), torch.int64, device),
                to_device(places, torch.int64, device),
            )
            tokens.index_copy_(0, index, theirs[0])
            logprobs.index_copy_(0, index, theirs[1])
        return tokens, logprobs

    def _finish(self, passes: Sequence[_Pass], failures: list[Failure]) -> list[Failure]:
        """Read what was chosen, and move the sequences on. failures: of the launch."""
        for done in passes:
            tokens, logprobs = done.choice.array().tolist()
            first = 0
            for sequence, count in zip(done.group, done.counts, strict=True):
                part = slice(first, first + count)
                first += count
                if sequence.phase is Phase.DONE:
                    continue  # it ended while this step was on its way
                if any(logprob != logprob for logprob in logprobs[part]):
                    failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                    continue
                sequence.absorb([int(token) for token in tokens[part]], logprobs[part])
        return failures

    # --- ends ------------------------------------------------------------------------------------

    def release(self, sequence: MoonshineSequence) -> None:
        """The request is over, whatever the reason: its row and slot are free again."""
        self._self_cache.free(sequence.row)
        self._cross_cache.free(sequence.slot)

    def forget(self, key: str) -> None:
        """Nothing is kept between the requests of an owner."""

    def stats(self) -> dict[str, int]:
        """Since the start."""
        return {"eager_passes": self._num_passes}

    def check(self, num_running: int) -> None:
        """Raise AssertionError if rows or slots leaked."""
        self._self_cache.check()
        self._cross_cache.check()
        assert self._max_rows - self._self_cache.num_free == num_running
        assert self._max_rows - self._cross_cache.num_free == num_running

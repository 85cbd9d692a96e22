"""The choice of the next token for every row of a step, whatever each row's request asked for.

Stages, each skipped without a tensor operation if no row uses it::

    grammar -> allowed tokens -> suppressed, stop before min_tokens, bias
      -> repetition -> presence, frequency
      -> (log probabilities are those of this distribution, at temperature 1)
      -> greedy: the best token, the lowest id among equals
         drawn:  temperature -> min-p -> top-k -> top-p -> Gumbel-max

Nothing is remembered between calls, and a row's outcome depends on that row alone. So a draft is
verified by giving one row per draft position, its history extended by the draft up to there: what
is sampled at each is what plain decoding would have sampled, with a temperature as well as without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.device.staging import Numbers, Readback, to_device
from lookhear.engine.sampling.params import (
    GREEDY,
    MAX_LOGPROBS,
    NOTHING,
    Known,
    SamplingParams,
    TokenMask,
)
from lookhear.kernels.grammar_mask import WORD, allow_bits_
from lookhear.kernels.sampling import argmax, draw, token_logprobs, top_logprobs
from lookhear.kernels.sampling_stages import (
    add_,
    allow_only_,
    keep_min_p_,
    keep_top_k_,
    keep_top_p_,
    penalise_repeats_,
    temper,
)


class SamplingRow(NamedTuple):
    """One position whose next token is wanted.

    position: what the noise is keyed by besides the seed: the place of the wanted token in its
    context. history: prompt and output tokens before it; only read if `params.penalises`. prompt:
    what is known of a prompt that is not in the history.
    num_output: how many tokens of output there are before it, the last ones of the history.
    grammar: what lets through the tokens that may come here; None: all may.
    """

    params: SamplingParams
    position: int
    history: Sequence[int] = ()
    num_output: int = 0
    grammar: TokenMask | None = None
    prompt: Known = NOTHING

    @property
    def edits(self) -> bool:
        """Whether this row's logits are changed before the choice."""
        params = self.params
        if self.grammar is not None or params.edits:
            return True
        return self.num_output < params.min_tokens and bool(params.stop_tokens)


# Of a position where nothing but the best token is wanted, whatever it is of.
PLAIN = SamplingRow(GREEDY, 0)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was chosen, a list entry per row.

    logprobs: natural-log probability of the token after masks, bias and penalties, before
    temperature and cuts. top: per row the (token, log probability) pairs asked for, best first,
    fewer if fewer tokens may be chosen; None if no row asked. bad: rows whose logits had a NaN, a
    positive infinity or nothing left to choose; their tokens and logprobs (NaN) mean nothing.
    """

    tokens: list[int]
    logprobs: list[float]
    top: list[list[tuple[int, float]]] | None
    bad: list[int]


class _Entries(NamedTuple):
    """Single logits to change: flat index row * vocab + token, and by how much."""

    places: list[int] | NDArray[np.int64]
    amounts: list[float] | NDArray[np.float32]


class Choice:
    """What was chosen, on its way to the host. tokens: [n] int64, still on the device."""

    def __init__(
        self, tokens: Tensor, values: Tensor | None, rows: Sequence[SamplingRow], count: int
    ) -> None:
        """values: [2 n + 2 * asking rows * count] float64: tokens, their log probabilities, then
        ids and log probabilities of the best tokens of the rows that ask for some."""
        self.tokens = tokens
        self._rows = rows
        self._count = count
        self._values = None if values is None else Readback(values)

    def read(self) -> Sampled:
        """Waits for it. The one read-back of a step."""
        if self._values is None:
            return Sampled([], [], None, [])
        n, values = len(self._rows), self._values.read()
        tokens, logprobs = [int(token) for token in values[:n]], values[n : 2 * n]
        bad = [i for i, logprob in enumerate(logprobs) if logprob != logprob]
        top: list[list[tuple[int, float]]] | None = None
        asking = [i for i, row in enumerate(self._rows) if row.params.logprobs]
        if asking:
            top = [[] for _ in self._rows]
            size = len(asking) * self._count
            ids, logs = values[2 * n : -size], values[-size:]
            for place, i in enumerate(asking):
                part = slice(place * self._count, (place + 1) * self._count)
                top[i] = _best(ids[part], logs[part])[: self._rows[i].params.logprobs]
        return Sampled(tokens, logprobs, top, bad)


class Sampler:
    """vocab_size: logits per row, and the bound of every token id. Reads back from the device once
    per step, when its choice is read."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        assert vocab_size >= 1
        self._vocab_size = vocab_size
        self._device = device

    def sample(self, logits: Tensor, rows: Sequence[SamplingRow]) -> Sampled:
        """Chooses a token per row. logits: [n, vocab] float32, left as they are; n may be 0."""
        return self.launch(logits, rows).read()

    def launch(
        self,
        logits: Tensor,
        rows: Sequence[SamplingRow],
        greedy: tuple[Tensor, Tensor] | None = None,
    ) -> Choice:
        """`sample` without waiting for the device. greedy: each row's best token and its log
        probability, [n] each, where somebody has computed them already."""
        assert logits.shape == (len(rows), self._vocab_size), logits.shape
        assert logits.dtype == torch.float32, logits.dtype
        if not rows:
            return Choice(torch.zeros(0, dtype=torch.int64, device=self._device), None, rows, 0)
        is_plain = all(row is PLAIN for row in rows)
        if greedy is not None and (
            is_plain or not any(r.edits or r.params.temperature > 0.0 for r in rows)
        ):
            tokens, logprobs, scores = *greedy, logits
        else:
            scores = logits if is_plain else self._edited(logits, rows)
            tokens = argmax(scores) if is_plain else self._chosen(scores, rows)
            logprobs = token_logprobs(scores, tokens)
        # Always as many: which of equals come first must not depend on what others ask for.
        count = min(MAX_LOGPROBS, self._vocab_size)
        parts = [tokens, logprobs]
        asking = [] if is_plain else [i for i, row in enumerate(rows) if row.params.logprobs]
        if asking:
            if len(asking) < len(rows):
                scores = scores[self._tensor(asking, torch.int64)]
            parts += [part.flatten() for part in top_logprobs(scores, count)]
        values = torch.cat([part.double() for part in parts])
        return Choice(tokens, values, rows, count)

    # --- before the choice -----------------------------------------------------------------------

    def _edited(self, logits: Tensor, rows: Sequence[SamplingRow]) -> Tensor:
        """Masks, bias and penalties; the logits themselves if nobody has any."""
        if not any(row.edits for row in rows):
            return logits
        scores = logits.clone(memory_format=torch.contiguous_format)
        self._keep_grammars(scores, rows)
        self._allow_only(scores, rows)
        self._apply(add_, scores, self._biases(rows))
        penalising = [i for i, row in enumerate(rows) if row.params.penalises]
        if penalising:
            self._apply(penalise_repeats_, scores, self._repetitions(rows, penalising))
            self._apply(add_, scores, self._occurrences(rows, penalising))
        return scores

    def _keep_grammars(self, scores: Tensor, rows: Sequence[SamplingRow]) -> None:
        masks = [(i, row.grammar) for i, row in enumerate(rows) if row.grammar is not None]
        if not masks:
            return
        bits = np.zeros((len(masks), -(-self._vocab_size // WORD)), np.int32)
        for mine, (_, grammar) in zip(bits, masks, strict=True):
            grammar.fill(mine)
        index = self._tensor([i for i, _ in masks], torch.int64)
        allow_bits_(scores, index, self._tensor(bits, torch.int32))

    def _allow_only(self, scores: Tensor, rows: Sequence[SamplingRow]) -> None:
        limited = [i for i, row in enumerate(rows) if row.params.allowed_tokens is not None]
        places = [
            i * self._vocab_size + token
            for i in limited
            for token in rows[i].params.allowed_tokens or ()
        ]
        if limited:
            allow_only_(
                scores, self._tensor(limited, torch.int64), self._tensor(places, torch.int64)
            )

    def _biases(self, rows: Sequence[SamplingRow]) -> _Entries:
        """Bias, and -inf for what must not be chosen."""
        places, amounts = [], []
        for i, row in enumerate(rows):
            tokens, added = row.params.added(row.num_output)
            if len(tokens) > 0:
                places.append(i * self._vocab_size + tokens)
                amounts.append(added)
        return _joined(places, amounts)

    def _repetitions(self, rows: Sequence[SamplingRow], penalising: list[int]) -> _Entries:
        """Every token of prompt or output, once."""
        places, amounts = [], []
        for i in penalising:
            penalty, prompt = rows[i].params.repetition_penalty, rows[i].prompt
            if penalty != 1.0:
                others = {*rows[i].history} - prompt.tokens
                tokens = np.concatenate((prompt.ids, np.array([*others], np.int64)))
                assert all(0 <= token < self._vocab_size for token in others), others
                places.append(i * self._vocab_size + tokens)
                amounts.append(np.full(len(tokens), penalty, np.float32))
        return _joined(places, amounts)

    def _occurrences(self, rows: Sequence[SamplingRow], penalising: list[int]) -> _Entries:
        """Every token of the output, by how often it is there."""
        places, amounts = [], []
        for i in penalising:
            params, history, num_output = rows[i].params, rows[i].history, rows[i].num_output
            assert num_output <= len(history), (num_output, len(history))
            if num_output > 0 and (params.presence_penalty or params.frequency_penalty):
                tokens, counts = self._counted(history[len(history) - num_output :])
                places.append(i * self._vocab_size + tokens)
                penalty = params.presence_penalty + params.frequency_penalty * counts
                amounts.append(-penalty.astype(np.float32))
        return _joined(places, amounts)

    def _counted(self, tokens: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found, counts = np.unique(np.asarray(tokens, np.int64), return_counts=True)
        assert 0 <= found[0] and found[-1] < self._vocab_size, (found[0], found[-1])
        return found, counts

    def _apply(
        self, stage: Callable[[Tensor, Tensor, Tensor], None], scores: Tensor, entries: _Entries
    ) -> None:
        if len(entries.places) > 0:
            places = self._tensor(entries.places, torch.int64)
            stage(scores, places, self._tensor(entries.amounts, torch.float32))

    # --- the choice ------------------------------------------------------------------------------

    def _chosen(self, scores: Tensor, rows: Sequence[SamplingRow]) -> Tensor:
        """Tokens [n]."""
        drawn = [i for i, row in enumerate(rows) if row.params.temperature > 0.0]
        if not drawn:
            return argmax(scores)
        if len(drawn) == len(rows):
            return self._drawn(scores, rows)
        index = self._tensor(drawn, torch.int64)
        theirs = self._drawn(scores[index], [rows[i] for i in drawn])
        return argmax(scores).index_copy_(0, index, theirs)

    def _drawn(self, scores: Tensor, rows: Sequence[SamplingRow]) -> Tensor:
        """Tokens [m] of m rows that all have a temperature."""
        params = [row.params for row in rows]
        # Colder than this float32 cannot say; what is best by the last digit wins already.
        temperature = [max(p.temperature, 1e-6) for p in params]
        scores = temper(scores, self._tensor(temperature, torch.float32))
        if any(p.min_p > 0.0 for p in params):
            keep_min_p_(scores, self._tensor([p.min_p for p in params], torch.float32))
        self._cut(scores, [i for i, p in enumerate(params) if self._cuts_k(p)], self._top_k, params)
        self._cut(scores, [i for i, p in enumerate(params) if p.top_p < 1.0], self._top_p, params)
        seeds = self._tensor([p.seed for p in params], torch.int64)
        positions = self._tensor([row.position for row in rows], torch.int64)
        return draw(scores, seeds, positions)

    def _cuts_k(self, params: SamplingParams) -> bool:
        return 0 < params.top_k < self._vocab_size

    def _cut(
        self,
        scores: Tensor,
        users: list[int],
        stage: Callable[[Tensor, list[SamplingParams]], None],
        params: list[SamplingParams],
    ) -> None:
        """A stage that costs much, on the rows that use it only; others keep their scores."""
        if not users:
            return
        if len(users) == len(params):
            stage(scores, params)
            return
        index = self._tensor(users, torch.int64)
        theirs = scores[index]
        stage(theirs, [params[i] for i in users])
        scores.index_copy_(0, index, theirs)

    def _top_k(self, scores: Tensor, params: list[SamplingParams]) -> None:
        top_k = [p.top_k for p in params]
        keep_top_k_(scores, self._tensor(top_k, torch.int64), max(top_k))

    def _top_p(self, scores: Tensor, params: list[SamplingParams]) -> None:
        keep_top_p_(scores, self._tensor([p.top_p for p in params], torch.float64))

    def _tensor(self, values: Numbers, dtype: torch.dtype) -> Tensor:
        return to_device(values, dtype, self._device)


def _best(ids: list[float], logprobs: list[float]) -> list[tuple[int, float]]:
    """Best first, the lowest id among equals; without what cannot be chosen, nor NaN."""
    pairs = [(int(i), log) for i, log in zip(ids, logprobs, strict=True) if log > -math.inf]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def _joined(places: list[NDArray[np.int64]], amounts: list[NDArray[np.float32]]) -> _Entries:
    if not places:
        return _Entries([], [])
    return _Entries(np.concatenate(places), np.concatenate(amounts))

"""Decoder passes over a paged cache, from sequences to logits: eager, or by a captured graph.

    sequences -> integers of the step (one copy to the device) -> media in their places
              -> decoder -> logits where a successor is wanted

Two kinds. "decode": a token per row, all of which want a successor. "prefill": anything else:
prompts, chunks, drafts, single tokens among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.core.adapting import BatchAdapters
from lookhear.engine.core.request import UNREAD, Phase
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.device.graphs import Fields, Shape, row_buckets
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.paged.decoder import Added, PagedDecoder, Work
from lookhear.engine.paged.rows import Gathered, Indices, Rows
from lookhear.engine.paged.wanted.scores import Scores
from lookhear.kernels import greedy

Media = Mapping[str, list[Tensor]]  # request -> embeddings of its media
Piece = tuple[int, int, Tensor]  # tokens [first, last) of a step, rows of the medium behind them

# Prompts are padded to so many tokens: libraries prepare (and keep) code per shape, and a tick has
# as many tokens as it happens to have.
PREFILL_MULTIPLE = 16
# A tick reads the open window and the text behind it; drafts of a few tokens are the smallest, and
# what hundreds of sessions ask for in one step, a dozen ticks and more, the largest.
PREFILL_BUCKETS = (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)


class PagedLogits(NamedTuple):
    """values: [n, vocab] float32, of the positions that want a successor. greedy: their best tokens
    and those log probabilities, [n] each, where they were computed on the way. pooled: [m, width]
    float32, see `Qwen3Model.pooled`, of the positions of which that is wanted; None: of none.
    scores: of the prompts' tokens whose probability is wanted; None: there are none."""

    values: Tensor
    greedy: tuple[Tensor, Tensor] | None = None
    pooled: Tensor | None = None
    scores: Scores | None = None


class PagedPasses:
    """media_parts: widths of the decoder in an embedding of a medium, 0 if there are none.
    adapters: change the decoder for requests that have one; passes with such are eager."""

    def __init__(
        self,
        decoder: PagedDecoder,
        cache: PagedCache,
        rows: Rows,
        *,
        media_parts: int = 1,
        acceleration: Acceleration = CPU,
        adapters: BatchAdapters | None = None,
    ) -> None:
        self._decoder = decoder
        self._adapters = adapters
        self._cache = cache
        self._rows = rows
        self._parts = media_parts
        self._has_axes = decoder.dims.rope_sections is not None and media_parts > 0
        # The token that each row sampled last, for steps that are launched before it is read.
        self._last: Tensor | None = None
        if acceleration.overlaps:
            self._last = torch.zeros(rows.max_rows, dtype=torch.int64, device=decoder.device)
        capacity = (10 if self._has_axes else 8) * max(PREFILL_BUCKETS[-1], rows.max_rows)
        capacity += (rows.max_blocks + 8) * rows.max_rows + 256
        self.graphs = acceleration.new_graphs(capacity)
        if self.graphs.is_on:
            assert acceleration.memory is not None
            # A copy of all block tables, changed as they are; the last row is nobody's.
            self._tables = torch.zeros(
                (rows.max_rows + 1, rows.max_blocks), dtype=torch.int64, device=decoder.device
            )
            # One for all graphs: each would keep its own, of vocab numbers a row.
            self._logits = acceleration.memory.persistent(
                (rows.max_rows, decoder.vocab), torch.float32
            )
            if media_parts:
                shape = (PREFILL_BUCKETS[-1], media_parts * decoder.dims.width)
                self._media_rows = acceleration.memory.persistent(shape, decoder.dtype)
                self._places = torch.arange(shape[0], device=decoder.device)
            self._plan()

    def _plan(self) -> None:
        most = self._rows.max_rows
        decode: list[Shape] = [(size, size) for size in row_buckets(most)]
        self.graphs.plan(
            "decode", decode, self._decode_region, lambda shape: self._integers([], shape, True)
        )
        prefill: list[Shape] = [(size, min(size, most)) for size in PREFILL_BUCKETS]
        self.graphs.plan(
            "prefill", prefill, self._prefill_region, lambda shape: self._integers([], shape, False)
        )

    # --- a pass ----------------------------------------------------------------------------------

    def run(
        self,
        work: Sequence[Work],
        wanted: Sequence[int],
        media: Media,
        pooled: Sequence[int] = (),
        scored: Sequence[int] = (),
    ) -> PagedLogits:
        """One pass over all the work. wanted: of each sequence's tokens, how many of the last want
        a successor. The logits are those of all of these, in the work's order; they lie in memory
        that the next pass may write. pooled: of how many of the last the hidden states are wanted;
        (): of none. scored: of the tokens behind how many of the first it is wanted how probable
        they are; (): of none."""
        pieces = _pieces(work, media)
        is_decode = not pieces and all(
            count == number == 1 for (_, count), number in zip(work, wanted, strict=True)
        )
        kind = "decode" if is_decode else "prefill"
        num_tokens = sum(count for _, count in work)
        slots = self._slots(work)
        shape = None if slots else self.graphs.fit(kind, num_tokens, len(work))
        integers = self._integers(work, shape, is_decode, pieces)
        if not is_decode:
            integers["wanted"] = _last([count for _, count in work], wanted)
            if pieces and shape is not None:
                integers["places"] = np.flatnonzero(integers["is_medium"])
        if self._last is not None:
            # A row's last logits are those behind all its tokens.
            lasts = np.cumsum(wanted) - 1
            has_any = np.asarray(wanted) > 0
            integers["ending_rows"] = np.array([s.row for s, _ in work], np.int64)[has_any]
            integers["endings"] = lasts[has_any]
        if is_pooled := any(pooled):
            integers["pooled"] = _last([count for _, count in work], pooled)
        most = None
        if any(scored):
            integers |= _scored(work, scored)
            most = max(s.request.scored or 0 for s, _ in work)
        changes = None if shape is None else self._rows.changes()
        if changes is not None:
            integers["changed"], integers["changes"] = changes
        fields = self.graphs.staging.put(integers, is_fixed=shape is not None)
        self._fields = fields
        if changes is not None:
            self._tables.index_copy_(0, fields["changed"], fields["changes"])
        size = len(fields["tokens"])
        with self._adapting(slots, [count for _, count in work], size):
            return self._computed(kind, shape, fields, pieces, len(work), most, is_pooled=is_pooled)

    def _slots(self, work: Sequence[Work]) -> list[int | None]:
        """Of the adapters of requests, [] if none has one."""
        if self._adapters is None or all(s.request.adapter is None for s, _ in work):
            return []
        adapters = [sequence.request.adapter for sequence, _ in work]
        return [None if adapter is None else adapter.slot for adapter in adapters]

    def _adapting(
        self, slots: Sequence[int | None], counts: Sequence[int], size: int
    ) -> AbstractContextManager[None]:
        if not slots or self._adapters is None:
            return nullcontext()
        return self._adapters.decoding(slots, counts, size)

    def _computed(
        self,
        kind: str,
        shape: Shape | None,
        fields: Fields,
        pieces: Sequence[Piece],
        count: int,
        most: int | None,
        *,
        is_pooled: bool,
    ) -> PagedLogits:
        """most: of the likeliest tokens in the place of a prompt's; None: none is scored."""
        if kind == "decode":
            return self._decoded(fields, shape, count)
        if shape is not None and pieces:  # to where the graph of that shape reads them
            embeddings = _joined(pieces).to(self._media_rows.dtype)
            self._media_rows.index_copy_(0, fields["places"], embeddings)
        hidden = self.graphs.run(kind, shape, lambda: self._eager(fields, pieces))
        found = self._decoder.pooled(hidden[fields["pooled"]]) if is_pooled else None
        scores: Scores | None = None
        if most is not None:
            states = hidden[fields["scored"]]
            scores = Scores(self._decoder.logits, states, fields["successors"], most)
        return PagedLogits(
            self._decoder.logits(hidden[fields["wanted"]]), pooled=found, scores=scores
        )

    def keep(self, tokens: Tensor) -> None:
        """The tokens chosen for the last pass's logits, [n]: rows may be fed them unread."""
        if self._last is not None and len(tokens) > 0:
            fields = self._fields
            self._last.index_copy_(0, fields["ending_rows"], tokens[fields["endings"]])

    def _integers(
        self,
        work: Sequence[Work],
        shape: Shape | None,
        is_decode: bool,
        pieces: Sequence[Piece] = (),
    ) -> dict[str, Indices]:
        """Of a step, padded to the shape of a graph if there is one."""
        tokens: list[int] = []
        for sequence, count in work:
            queries = sequence.queries(count)
            if sequence.unread:
                mine = UNREAD - sequence.row
                queries = [token if token != UNREAD else mine for token in queries]
            tokens += queries
        num_tokens = len(tokens)
        if shape is not None:
            num_tokens = shape[0]
        elif not is_decode:
            if num_tokens > PREFILL_MULTIPLE:  # fewer are guesses, or nearly none
                num_tokens += -num_tokens % PREFILL_MULTIPLE
        gathered = self._rows.gather(
            [s.row for s, _ in work],
            [s.fed for s, _ in work],
            [n for _, n in work],
            num_tokens=num_tokens,
            num_rows=None if shape is None else shape[1],
            is_uniform=is_decode,
        )
        has_axes = self._has_axes if shape else any(s.positions is not None for s, _ in work)
        integers = {
            "tokens": np.array(tokens + [0] * (num_tokens - len(tokens)), np.int64),
            "positions": _axes(work, gathered.positions) if has_axes else gathered.positions,
            "slots": gathered.slots,
            **_whose(gathered),
            "past": gathered.past_lengths,
            "new": gathered.query_lengths,
        }
        if not is_decode and self._parts:
            found = _places(pieces)
            if shape is None:
                integers["places"] = found
            else:
                integers["is_medium"] = np.zeros(num_tokens, np.int64)
                integers["is_medium"][found] = 1
        return integers

    def _ids(self, tokens: Tensor) -> Tensor:
        if self._last is None:
            return tokens
        unread = self._last[(UNREAD - tokens).clamp_(min=0)]
        return torch.where(tokens < 0, unread, tokens)

    # --- decode ----------------------------------------------------------------------------------

    def _decoded(self, fields: Fields, shape: Shape | None, count: int) -> PagedLogits:
        def eager() -> tuple[Tensor]:
            return (self._decoder.logits(self._hidden(fields, is_decode=True)),)

        values, *chosen = self.graphs.run("decode", shape, eager)
        if not chosen:
            return PagedLogits(values)
        tokens, logprobs = chosen
        return PagedLogits(values[:count], (tokens[:count], logprobs[:count]))

    def _hidden(self, fields: Fields, *, is_decode: bool = False) -> Tensor:
        batch = self._batch(fields, is_decode)
        return self._decoder.forward(self._ids(fields["tokens"]), batch, self._cache)

    def _batch(self, fields: Fields, is_decode: bool = False) -> PagedBatch:
        tables = fields["tables"] if "tables" in fields else self._tables[fields["rows"]]
        return PagedBatch(
            fields["positions"],
            fields["slots"],
            tables,
            fields["past"],
            fields["new"],
            is_decode,
        )

    def _decode_region(self, fields: Fields) -> tuple[Tensor, Tensor, Tensor]:
        values = self._decoder.logits(self._hidden(fields, is_decode=True))
        held = self._logits[: len(values)].copy_(values)
        return held, *greedy(held)

    # --- prefill ---------------------------------------------------------------------------------

    def _eager(self, fields: Fields, pieces: Sequence[Piece]) -> Tensor:
        if not pieces:
            return self._hidden(fields)
        inputs = self._decoder.embed(self._ids(fields["tokens"]))
        width = inputs.shape[1]
        rows = _joined(pieces)
        inputs.index_copy_(0, fields["places"], rows[:, :width].to(inputs.dtype))
        added: Added | None = None
        if rows.shape[1] > width:
            added = fields["places"], rows[:, width:]
        return self._decoder.forward(inputs, self._batch(fields), self._cache, added)

    def _prefill_region(self, fields: Fields) -> Tensor:
        if not self._parts:
            return self._hidden(fields)
        inputs = self._decoder.embed(self._ids(fields["tokens"]))
        width = inputs.shape[1]
        is_medium = fields["is_medium"][:, None] > 0
        # What no medium was put into may hold anything.
        rows = torch.where(is_medium, self._media_rows[: len(inputs)], 0.0)
        inputs = torch.where(is_medium, rows[:, :width], inputs)
        added: Added | None = None
        if self._parts > 1:
            added = self._places[: len(inputs)], rows[:, width:]
        return self._decoder.forward(inputs, self._batch(fields), self._cache, added)


def _last(counts: Sequence[int], wanted: Sequence[int]) -> Indices:
    """Of runs of so many tokens, one behind another, the places of the last wanted[i] of each."""
    behind, total = np.cumsum(counts), np.cumsum(wanted)
    return np.repeat(behind - total, wanted) + np.arange(total[-1])


def _scored(work: Sequence[Work], scored: Sequence[int]) -> dict[str, Indices]:
    """The first scored[i] of each run of tokens, and what stands behind each of them."""
    places: list[int] = []
    successors: list[int] = []
    first = 0
    for (sequence, count), number in zip(work, scored, strict=True):
        behind = sequence.fed + 1
        places += range(first, first + number)
        successors += sequence.request.tokens[behind : behind + number]
        first += count
    return {
        "scored": np.array(places, np.int64),
        "successors": np.array(successors, np.int64),
    }


def _whose(gathered: Gathered) -> dict[str, Indices]:
    tables = gathered.block_tables
    return {"rows": gathered.rows} if tables is None else {"tables": tables}


def _pieces(work: Sequence[Work], media: Media) -> list[Piece]:
    """Of the media, what stands for placeholders among the step's tokens."""
    pieces: list[Piece] = []
    base = 0
    for sequence, count in work:
        placed = sequence.request.media
        if sequence.phase is not Phase.PREFILL or not placed:
            base += count
            continue
        low, high = sequence.fed, sequence.fed + count
        is_behind = low >= placed[-1][0] + placed[-1][1].num_tokens
        outputs = [] if is_behind else media.get(sequence.key, [])
        for (start, medium), output in zip(placed, outputs, strict=False):
            first, last = max(low, start), min(high, start + medium.num_tokens)
            if first < last:
                is_whole = last - first == medium.num_tokens
                rows = output if is_whole else output[first - start : last - start]
                pieces.append((base + first - low, base + last - low, rows))
        base += count
    return pieces


def _places(pieces: Sequence[Piece]) -> Indices:
    """Of their rows among the step's tokens."""
    places = [np.arange(first, last) for first, last, _ in pieces]
    return np.concatenate([*places, np.zeros(0, np.int64)])


def _joined(pieces: Sequence[Piece]) -> Tensor:
    return pieces[0][2] if len(pieces) == 1 else torch.cat([rows for _, _, rows in pieces])


def _axes(work: Sequence[Work], places: Indices) -> Indices:
    """M-RoPE's positions, [3, tokens]; without pictures they are the places on all axes."""
    axes = np.repeat(places[None], 3, axis=0)
    base = 0
    for sequence, count in work:
        if sequence.positions is not None:
            first = sequence.fed
            axes[:, base : base + count] = sequence.positions.read(first, first + count)
        base += count
    return axes

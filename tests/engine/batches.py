"""Steps of a paged decoder, written down row by row: what `engine.paged.rows` gathers at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lookhear.engine.paged.blocks import BLOCK_TOKENS, TRASH
from lookhear.engine.paged.cache import PagedBatch


def paged_batch(
    block_tables: Sequence[Sequence[int]],
    past_lengths: Sequence[int],
    query_lengths: Sequence[int],
    *,
    num_tokens: int | None = None,
    positions: Tensor | None = None,
    device: torch.device | str = "cpu",
) -> PagedBatch:
    """The batch in which row r adds query_lengths[r] tokens behind its past_lengths[r].

    block_tables: of each row, block ids that cover all its tokens. num_tokens: of the step,
    padding included (default: no padding). positions: as in `PagedBatch`; default: the place of a
    token in its row, which is right for everything but images. Padding has position 0, and its
    slots are those of the trash block.
    """
    total = sum(query_lengths)
    num_tokens = total if num_tokens is None else num_tokens
    assert num_tokens >= total, (num_tokens, total)
    slots = [TRASH * BLOCK_TOKENS + i % BLOCK_TOKENS for i in range(num_tokens)]
    places = [0] * num_tokens
    token = 0
    for table, past, new in zip(block_tables, past_lengths, query_lengths, strict=True):
        assert past + new <= len(table) * BLOCK_TOKENS, (past, new, len(table))
        assert TRASH not in table, "the trash block belongs to nobody"
        for place in range(past, past + new):
            slots[token] = table[place // BLOCK_TOKENS] * BLOCK_TOKENS + place % BLOCK_TOKENS
            places[token] = place
            token += 1
    width = max(map(len, block_tables), default=0)
    padded = [[*table, *[TRASH] * (width - len(table))] for table in block_tables]

    def index(values: Sequence[Sequence[int]] | Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    return PagedBatch(
        positions=index(places) if positions is None else positions,
        slots=index(slots),
        block_tables=index(padded),
        past_lengths=index(past_lengths),
        query_lengths=index(query_lengths),
        is_decode=num_tokens == len(query_lengths) and set(query_lengths) == {1},
    )

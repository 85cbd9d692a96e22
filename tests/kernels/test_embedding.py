from __future__ import annotations

import torch

from lookhear.kernels import embed_tokens, pack_table


def test_embedding_leaves_its_tables_alone() -> None:
    tokens, positions = torch.tensor([[1, 0], [2, 2]]), torch.tensor([[0, 1], [4, 5]])
    table, places = torch.arange(6.0).view(3, 2), torch.arange(12.0).view(6, 2)
    copy = table.clone()
    out = embed_tokens(tokens, positions, table, places)
    assert out.tolist() == [[[2, 4], [2, 4]], [[12, 14], [14, 16]]]
    assert torch.equal(table, copy)


def test_a_table_in_8_bits_is_near_and_each_row_has_its_own_step() -> None:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(30, 16, generator=generator) * torch.logspace(-3, 1, 30)[:, None]
    table[7] = 0.0
    packed = pack_table(table)
    assert packed.dtype == torch.uint8 and packed.shape == (30, 24)
    tokens = torch.arange(30).view(5, 6)
    places = torch.randn(30, 16, generator=generator)
    out = embed_tokens(tokens, tokens, packed, places)
    steps = (table.amax(1) - table.amin(1)) / 255
    error = (out.view(30, 16) - places - table).abs().amax(1)
    assert (error <= 0.51 * steps + 1e-6).all()
    alone = embed_tokens(tokens[2:3], tokens[2:3], packed, places)
    assert torch.equal(alone, out[2:3])

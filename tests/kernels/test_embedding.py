from __future__ import annotations

import torch

from lookhear.kernels import embed_tokens


def test_embedding_leaves_its_tables_alone() -> None:
    tokens, positions = torch.tensor([[1, 0], [2, 2]]), torch.tensor([[0, 1], [4, 5]])
    table, places = torch.arange(6.0).view(3, 2), torch.arange(12.0).view(6, 2)
    copy = table.clone()
    out = embed_tokens(tokens, positions, table, places)
    assert out.tolist() == [[[2, 4], [2, 4]], [[12, 14], [14, 16]]]
    assert torch.equal(table, copy)

from __future__ import annotations

import torch

from lookhear.kernels import swiglu


def test_formula() -> None:
    x = torch.randn(3, 2, 10, generator=torch.Generator().manual_seed(0))
    gate, up = x[..., :5], x[..., 5:]
    torch.testing.assert_close(swiglu(x), gate / (1 + (-gate).exp()) * up)

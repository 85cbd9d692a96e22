from __future__ import annotations

import torch

from lookhear.kernels import gelu_, swiglu


def test_swiglu_is_its_formula() -> None:
    x = torch.randn(3, 2, 10, generator=torch.Generator().manual_seed(0))
    gate, up = x[..., :5], x[..., 5:]
    torch.testing.assert_close(swiglu(x), gate / (1 + (-gate).exp()) * up)


def test_gelu_is_its_formula() -> None:
    x = torch.randn(3, 7, 12, generator=torch.Generator().manual_seed(0)) * 4 + 2
    torch.testing.assert_close(gelu_(x.clone()), x * 0.5 * (1 + torch.erf(x / 2**0.5)))

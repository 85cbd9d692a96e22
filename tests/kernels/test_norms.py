from __future__ import annotations

import pytest
import torch

from lookhear.kernels import add_rms_norm, layer_norm, rms_norm


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 4), (5, 33), (2, 3, 7), (0, 8)])
def test_formula(shape: tuple[int, ...]) -> None:
    x, weight = draw(0, *shape), draw(1, shape[-1])
    expected = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight
    torch.testing.assert_close(rms_norm(x, weight, 1e-6), expected.float(), atol=1e-6, rtol=1e-5)


def test_one_weight_per_head() -> None:
    x, weight = draw(0, 5, 3, 8), draw(1, 3, 8)
    together = rms_norm(x, weight, 1e-6)
    for head in range(3):
        assert torch.equal(together[:, head], rms_norm(x[:, head], weight[head], 1e-6))


def test_bfloat16_is_rounded_only_at_the_end() -> None:
    x = draw(0, 4, 1024).bfloat16()
    exact = x.double() / x.double().square().mean(-1, keepdim=True).add(1e-6).sqrt()
    out = rms_norm(x, torch.ones(1024, dtype=torch.bfloat16), 1e-6)
    torch.testing.assert_close(out.double(), exact, atol=1e-3, rtol=2**-8)


def test_zeros_stay_zeros_and_bfloat16_keeps_its_type() -> None:
    assert not rms_norm(torch.zeros(2, 4), torch.ones(4), 1e-6).any()
    out = rms_norm(draw(0, 3, 16).bfloat16(), torch.ones(16, dtype=torch.bfloat16), 1e-6)
    assert out.dtype == torch.bfloat16


def test_residual_variant_is_sum_then_norm() -> None:
    x, residual, weight = draw(0, 4, 10), draw(1, 4, 10), draw(2, 10)
    kept = x.clone(), residual.clone()
    normed, total = add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, rms_norm(x + residual, weight, 1e-5))
    assert torch.equal(x, kept[0]) and torch.equal(residual, kept[1])


def test_layer_norm() -> None:
    x = draw(0, 3, 7, 12) * 4 + 2
    weight, bias = torch.full((12,), 2.0), torch.full((12,), 0.5)
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * 2 + 0.5
    torch.testing.assert_close(layer_norm(x, weight, bias), expected, atol=1e-5, rtol=1e-5)

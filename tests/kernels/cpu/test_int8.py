from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor

from lookhear.kernels import linear, pack_linear, supports_int8_weights
from lookhear.kernels.cpu.int8 import LEVELS, WEIGHT_LEVELS, int8_product, pack_int8

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def integers(levels: int, rows: int, columns: int, seed: int) -> Tensor:
    """Every row reaches the last level, so that its scale is one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-levels, levels + 1, (rows, columns), generator=generator).float()
    x[:, 0] = levels
    return x


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 300])
@pytest.mark.parametrize("inside, outside", [(5, 3), (64, 40), (384, 520)])
def test_what_has_no_rounding_is_exact(rows: int, inside: int, outside: int) -> None:
    x = integers(LEVELS, rows, inside, 1)
    weight = integers(WEIGHT_LEVELS, outside, inside, 2)
    expected = x.double() @ weight.double().T
    out = int8_product(x, pack_int8(weight))
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=0.01)


def test_the_largest_sums_are_not_cut_off() -> None:
    x, weight = torch.full((3, 512), float(LEVELS)), torch.full((9, 512), float(WEIGHT_LEVELS))
    packed = pack_int8(weight)
    torch.testing.assert_close(int8_product(x, packed), x @ weight.T)
    torch.testing.assert_close(int8_product(-x, packed), -x @ weight.T)


def test_rounding_costs_a_hundredth() -> None:
    x, weight = noise(200, 512, seed=3), noise(300, 512, seed=4)
    out, exact = int8_product(x, pack_int8(weight)), x @ weight.T
    assert (out - exact).norm() < 0.02 * exact.norm()


def test_rows_and_outputs_have_scales_of_their_own() -> None:
    sizes, weights = torch.logspace(-6, 6, 13), torch.logspace(-4, 4, 9)
    x, weight = noise(13, 256) * sizes[:, None], noise(9, 256, seed=1) * weights[:, None]
    out, exact = int8_product(x, pack_int8(weight)), x @ weight.T
    scale = sizes[:, None] * weights * 256**0.5
    assert ((out - exact).abs() < 0.08 * scale).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_knows_nothing_of_the_rows_beside_it(threads: int) -> None:
    weight, bias = noise(384, 512), noise(384, seed=1)
    weights = pack_linear(weight, bias, pack=True, int8=True)
    assert weights.int8 is not None and weights.weight.numel() == 0
    x = noise(500, 512, seed=2)
    x[100] *= 1e6
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        out = linear(x, weights)
        for first, last in ((0, 1), (3, 5), (99, 102), (7, 40), (0, 499)):
            assert torch.equal(linear(x[first:last], weights), out[first:last])
        assert torch.equal(linear(x, weights), out)
    finally:
        torch.set_num_threads(before)


def test_nothing_gives_nothing_and_no_number_stays_one() -> None:
    weights = pack_linear(noise(300, 400), noise(300, seed=1), pack=True, int8=True)
    x = noise(3, 400, seed=2)
    expected = linear(x, weights)
    x[1] = 0.0
    out = linear(x, weights)
    assert torch.equal(out[1], weights.bias)  # type: ignore[arg-type]
    assert torch.equal(out[::2], expected[::2])
    x[1, 7] = torch.nan
    out = linear(x, weights)
    assert out[1].isnan().all()
    assert torch.equal(out[::2], expected[::2])


@pytest.mark.parametrize("activation", ["none", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_in_int8(activation: str, bias: bool) -> None:
    weight, b = noise(400, 300), noise(400, seed=1) if bias else None
    x = noise(2, 5, 300, seed=2)
    out = linear(x, pack_linear(weight, b, pack=True, int8=True), activation)
    exact = linear(x, pack_linear(weight, b), activation)
    assert out.shape == (2, 5, 400) and out.dtype == torch.float32
    assert (out - exact).norm() < 0.02 * exact.norm()


def test_int8_is_for_large_matrices_in_float32() -> None:
    large = torch.zeros(400, 300)
    assert pack_linear(large, pack=True, int8=True).int8 is not None
    assert pack_linear(large[:100], pack=True, int8=True).int8 is None
    assert pack_linear(large.bfloat16(), pack=True, int8=True).int8 is None
    # A few rows take as long in float16, where the weights are at hand.
    assert pack_linear(large, half=True, int8=True).half is not None
    larger = torch.zeros(5000, 400)
    assert pack_linear(larger, half=True, int8=True).int8 is not None


def test_packing_leaves_torch_as_it_was(recwarn: pytest.WarningsRecorder) -> None:
    before = torch.backends.quantized.engine
    assert pack_int8(torch.zeros(8, 8)) is not None
    assert torch.backends.quantized.engine == before
    assert not recwarn.list


def test_without_the_operators_it_is_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("lookhear.kernels.cpu.int8")
    monkeypatch.delattr(torch, "_make_per_channel_quantized_tensor")
    assert module.pack_int8(torch.zeros(8, 8)) is None
    assert pack_linear(torch.zeros(400, 300), pack=True, int8=True).int8 is None
    assert not supports_int8_weights()

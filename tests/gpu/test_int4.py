"""Weights of 4 bits on the card: products are what they stand for, and a decoder says what its twin
says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.gpu.models import RandomWeights
from lookhear.engine.device.cuda_graphs import CudaBackend
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_weights import Qwen3Dims, read_weights
from lookhear.kernels import INT4, in_int4, int8_refusal, linear, norm_linear, round_int4
from lookhear.kernels.int4.weights import Int4Weights
from lookhear.kernels.linear import norm_linear as plain_norm_linear
from tests.engine.batches import paged_batch
from tests.gpu.conftest import IS_DRY

pytestmark = pytest.mark.gpu

Sized = Callable[[int, int], int]
twin_norm_linear = plain_norm_linear.__wrapped__  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def has_bfloat16(device: torch.device, triton_is: Callable[[bool], None]) -> None:
    if device.type == "cuda" and (why := int8_refusal(device)) is not None:
        pytest.skip(why)
    triton_is(True)


def draw(device: torch.device, seed: int, *shape: int) -> Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return drawn.to(device, torch.bfloat16)


def matrix(device: torch.device, outs: int, inner: int, group: int, zeros: bool) -> Int4Weights:
    weights = round_int4(draw(device, 1, outs, inner) / inner**0.5, group)
    if not zeros:
        return weights
    drawn = torch.randint(0, 16, weights.scales.shape, generator=torch.Generator().manual_seed(2))
    return Int4Weights(weights.numbers, weights.scales, drawn.to(device, torch.uint8))


def exact_product(x: Tensor, weights: Int4Weights) -> Tensor:
    """In float32, of weights that are multiplied out; on the CPU, which has no TF32."""
    return x.float().cpu() @ weights.whole().cpu().t()


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("group", [128, 64, 32])
@pytest.mark.parametrize("rows", [1, 2, 4, 5, 16, 64, 2048])
def test_products_are_what_they_stand_for(
    rows: int, group: int, zeros: bool, device: torch.device, sized: Sized, errors: Any
) -> None:
    rows = min(rows, sized(rows, 9))
    for outs, inner in ((4096, 2048), (2048, 6144), (1000, 3072)):
        outs, inner = sized(outs, 40), sized(inner, 256)
        weights = matrix(device, outs, inner, group, zeros)
        x, norm = draw(device, 2, rows, inner), draw(device, 3, inner)
        exact = exact_product(x, weights)
        scale = float(exact.abs().max())
        errors.close(linear(x, in_int4(weights)).cpu() / scale, exact / scale, 1e-2)
        y, total = norm_linear(x, x, norm, 1e-6, in_int4(weights))
        alone = twin_norm_linear(total.float(), None, norm.float(), 1e-6, in_int4(weights))[0]
        scale = float(alone.abs().max())
        errors.close(y / scale, alone / scale, 2e-2)


@pytest.mark.parametrize("rows", [1, 24])
def test_a_captured_product_reads_what_is_there_when_it_is_replayed(
    rows: int, device: torch.device
) -> None:
    if IS_DRY:
        pytest.skip("nothing is captured on a CPU")
    weights, norm = in_int4(matrix(device, 4096, 2048, 128, False)), draw(device, 3, 2048)
    x = draw(device, 4, rows, 2048)
    norm_linear(x, x, norm, 1e-6, weights)  # compiled before
    graph = CudaBackend(device).capture(lambda: norm_linear(x, x, norm, 1e-6, weights)[0])
    for seed in range(3):
        x.copy_(draw(device, seed, rows, 2048))
        graph.replay()
        assert torch.equal(graph.output, norm_linear(x, x, norm, 1e-6, weights)[0])


def test_a_decoder_says_what_its_twin_says(
    device: torch.device, sized: Sized, triton_is: Callable[[bool], None], errors: Any
) -> None:
    """A prompt of two rows, then tokens one by one: Triton's and torch's."""
    dims = Qwen3Dims(
        width=sized(2048, 64), layers=sized(8, 2), heads=sized(16, 2), kv_heads=sized(8, 1),
        head_dim=sized(128, 32), ffn=sized(6144, 128), vocab=sized(8192, 64), context=4096,
        eps=1e-6, rope_theta=1e6, rope_sections=None, attention_bias=False, tied_head=True,
    )  # fmt: skip
    torch.manual_seed(0)
    reader = RandomWeights(Path(), dtype=torch.bfloat16, device=device)
    with torch.inference_mode():
        model = Qwen3Model(dims, read_weights(reader, dims, linears=INT4))
    assert model.weights.layers[0].qkv.int4 is not None

    def logits() -> Tensor:
        n, blocks = 40, 4
        cache = model.new_cache(2 * blocks + 1)
        tables = [list(range(1, blocks + 1)), list(range(blocks + 1, 2 * blocks + 1))]
        tokens = (torch.arange(2 * n, device=device) * 7) % dims.vocab
        batch = paged_batch(tables, [0, 0], [n, n], device=device)
        hidden = model.forward(tokens, batch, cache)
        found = [model.logits(hidden[[n - 1, 2 * n - 1]])]
        for step in range(sized(8, 2)):
            batch = paged_batch(tables, [n + step] * 2, [1, 1], device=device)
            now = torch.tensor([3 + step, 5 + step], device=device)
            found.append(model.logits(model.forward(now, batch, cache)))
        return torch.stack(found)

    ours = logits()
    triton_is(False)
    theirs = logits()
    errors.close(ours / theirs.std(), theirs / theirs.std(), 0.15)

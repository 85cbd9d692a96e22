"""Float8 on the card: rows are rounded as the twin rounds them, the library's product gives what it
stands for, and a decoder says what its twin says."""

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
from lookhear.kernels import fp8 as operations
from lookhear.kernels import (
    fp8_refusal,
    linear,
    norm_linear,
    pack_linear,
    self_attention_paged,
)
from lookhear.kernels.choice import mode
from lookhear.kernels.fp8 import FP8
from lookhear.kernels.linear import linear as plain_linear
from lookhear.kernels.linear import norm_linear as plain_norm_linear
from tests.engine.batches import paged_batch
from tests.gpu.conftest import IS_DRY

pytestmark = pytest.mark.gpu

Sized = Callable[[int, int], int]
twin_round = operations.round_rows.__wrapped__  # type: ignore[attr-defined]
twin_norm_round = operations.norm_round_rows.__wrapped__  # type: ignore[attr-defined]
twin_norm_linear = plain_norm_linear.__wrapped__  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def has_fp8(device: torch.device, triton_is: Callable[[bool], None]) -> None:
    if device.type == "cuda" and (why := fp8_refusal(device)) is not None:
        pytest.skip(why)
    triton_is(True)


def draw(device: torch.device, seed: int, *shape: int) -> Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return drawn.to(device, torch.bfloat16)


def matrix(device: torch.device, outs: int, inner: int) -> Any:
    values, scales = twin_round(draw(device, 1, outs, inner) / inner**0.5)
    return pack_linear(values, scales=scales)


def exact_product(x: Tensor, weights: Any) -> Tensor:
    """In float32, of weights that are multiplied out; on the CPU, which has no TF32."""
    known: Tensor = weights.weight.float().cpu() * weights.scales.cpu()[:, None]
    return x.float().cpu() @ known.t()


def back(rounded: tuple[Tensor, Tensor]) -> Tensor:
    return rounded[0].float() * rounded[1][:, None]


@pytest.mark.parametrize("width", [123, 1024, 2048, 6144])
def test_rows_are_rounded_as_the_twin_rounds_them(
    width: int, device: torch.device, sized: Sized, errors: Any
) -> None:
    rows = sized(1023, 5)
    x, change, norm = (draw(device, i, *s) for i, s in enumerate([(rows, width)] * 2 + [(width,)]))
    x *= torch.logspace(-3, 3, rows, device=device)[:, None].to(x.dtype)
    ours, theirs = operations.round_rows(x), twin_round(x)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-6, atol=0.0)
    # Where a quotient lies between two steps, its last bit decides: seldom.
    apart = ours[0].view(torch.uint8) != theirs[0].view(torch.uint8)
    assert float(apart.float().mean()) < 1e-3
    errors.close(back(ours) / x.abs().amax(1, True), back(theirs) / x.abs().amax(1, True), 0.08)
    values, scales, total = operations.norm_round_rows(x, change, norm, 1e-6)
    errors.close(total, x.float() + change.float())
    expected = twin_norm_round(total, None, norm, 1e-6)
    error = (back((values, scales)) - back(expected[:2])).pow(2).mean().sqrt()
    assert float(error) < 5e-3 * float(back(expected[:2]).std())
    x[1, 5] = torch.nan
    broken = back(operations.round_rows(x))
    assert broken[1].isnan().all() and broken[[0, 2]].isfinite().all()


@pytest.mark.parametrize(("outs", "inner"), [(4096, 2048), (12_288, 2048), (2048, 6144)])
def test_products_of_few_rows_round_nothing_but_weights(
    outs: int, inner: int, device: torch.device, sized: Sized, errors: Any
) -> None:
    outs, inner = sized(outs, 32), sized(inner, inner // 4)
    weights = matrix(device, outs, inner)
    norm = draw(device, 3, inner)
    for rows in (1, 2, 4):
        x, change = draw(device, 4, rows, inner), draw(device, 5, rows, inner)
        errors.close(linear(x, weights).cpu(), exact_product(x, weights), 6e-2)
        for gated in (False, True):
            y, total = norm_linear(x, change, norm, 1e-6, weights, gated=gated)
            errors.close(total, x.float() + change.float())
            alone = twin_norm_linear(total.float(), None, norm.float(), 1e-6, weights, gated=gated)
            errors.close(y, alone[0], 6e-2)


@pytest.mark.parametrize("rows", [5, 16, 64, 2048])
def test_products_of_many_rows_are_what_they_stand_for(
    rows: int, device: torch.device, sized: Sized, errors: Any
) -> None:
    """The library's, against a float32 product of the same rounded numbers."""
    rows = min(rows, sized(rows, 9))
    for outs, inner in ((4096, 2048), (1024, 3072)):
        outs, inner = sized(outs, 48), sized(inner, inner // 4)
        weights, x, norm = matrix(device, outs, inner), draw(device, 2, rows, inner), None
        rounded = back(operations.round_rows(x))
        errors.close(linear(x, weights).cpu(), exact_product(rounded, weights), 3e-2)
        norm = draw(device, 3, inner)
        normed, scales, total = operations.norm_round_rows(x, x, norm, 1e-6)
        y, summed = norm_linear(x, x, norm, 1e-6, weights)
        assert torch.equal(summed, total)
        errors.close(y.cpu(), exact_product(back((normed, scales)), weights), 3e-2)
        # And that is not far from what nobody rounds.
        plain = twin_norm_linear(x.float()[:4], x.float()[:4], norm.float(), 1e-6, weights)[0].cpu()
        error = (y[:4].float().cpu() - plain).pow(2).mean().sqrt() / plain.std()
        assert float(error) < 0.05


def test_a_captured_product_of_many_rows_reads_what_is_there_when_it_is_replayed(
    device: torch.device, sized: Sized
) -> None:
    if IS_DRY:
        pytest.skip("nothing is captured on a CPU")
    weights, norm = matrix(device, 4096, 2048), draw(device, 3, 2048)
    x = draw(device, 4, 24, 2048)
    graph = CudaBackend(device).capture(lambda: norm_linear(x, x, norm, 1e-6, weights)[0])
    for seed in range(3):
        x.copy_(draw(device, seed, 24, 2048))
        graph.replay()
        assert torch.equal(graph.output, norm_linear(x, x, norm, 1e-6, weights)[0])


@pytest.mark.parametrize("rows", [1, 4, 5, 16, 64, 2048])
def test_weights_in_int8_meet_whole_inputs(
    rows: int, device: torch.device, sized: Sized, errors: Any
) -> None:
    rows = min(rows, sized(rows, 9))
    for outs, inner in ((4096, 2048), (1024, 3072)):
        outs, inner = sized(outs, 48), sized(inner, inner // 16)
        values, scales = operations.round_int8(draw(device, 1, outs, inner) / inner**0.5)
        weights, norm = pack_linear(values, scales=scales), draw(device, 3, inner)
        x = draw(device, 2, rows, inner)
        errors.close(linear(x, weights).cpu(), exact_product(x, weights), 3e-2)
        y, total = norm_linear(x, x, norm, 1e-6, weights)
        exact = twin_norm_linear(total.float(), None, norm.float(), 1e-6, weights)[0]
        errors.close(y, exact, 6e-2)


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(16, 8, 128), (14, 2, 64)])
@pytest.mark.parametrize("new", [1, 70])
def test_keys_and_values(
    new: int,
    heads: int,
    kv_heads: int,
    dim: int,
    device: torch.device,
    sized: Sized,
    errors: Any,
) -> None:
    """Written, and read behind others, by decoding and by a prompt; what no row has is NaN."""
    rows, past = sized(5, 2), [sized(700, 21), 3, 0, 16, 1999][: sized(5, 2)]
    new = sized(new, min(new, 5))
    blocks = [(n + new) // 16 + 1 for n in past]
    firsts = torch.tensor([1, *blocks[:-1]]).cumsum(0).tolist()
    tables = torch.zeros(rows, max(blocks), dtype=torch.int64)
    cache = torch.full((2, 1 + sum(blocks), 16, kv_heads, dim), torch.nan)
    drawn = torch.Generator().manual_seed(0)
    slots: list[int] = []
    for row, (first, count, held) in enumerate(zip(firsts, blocks, past, strict=True)):
        tables[row, :count] = torch.arange(first, first + count)
        places = cache.flatten(1, 2)[:, 16 * first : 16 * first + held]
        places.copy_(torch.randn(places.shape, generator=drawn))
        slots += range(16 * first + held, 16 * first + held + new)
    qkv = draw(device, 1, rows * new, heads + 2 * kv_heads, dim)
    weight = draw(device, 2, heads + kv_heads, dim)
    angles = torch.rand(rows * new, 1, dim, generator=drawn).to(device, torch.bfloat16)
    caches = [cache.to(torch.float8_e4m3fn).to(device) for _ in range(2)]
    lengths = torch.tensor(past, device=device), torch.full((rows,), new, device=device)
    where = torch.tensor(slots, device=device), tables.to(device), *lengths
    ours, theirs = (
        operation(qkv, weight, 1e-6, angles, angles, held, *where, is_decode=new == 1)
        for operation, held in zip(
            (self_attention_paged.twin(), self_attention_paged.__wrapped__),  # type: ignore[attr-defined]
            caches,
            strict=True,
        )
    )
    written = caches[1].float().isfinite()
    assert torch.equal(caches[0].float().isfinite(), written)
    # A number between two steps may be taken for either of them: seldom.
    one, other = (held.float()[written] for held in caches)
    assert float((one != other).float().mean()) < (0.05 if IS_DRY else 0.01)
    torch.testing.assert_close(one, other, rtol=0.14, atol=2**-9)
    errors.close(ours, theirs.float(), 0.1)


@pytest.mark.parametrize("keeps_fp8", [False, True])
def test_a_decoder_says_what_its_twin_says(
    keeps_fp8: bool,
    device: torch.device,
    sized: Sized,
    triton_is: Callable[[bool], None],
    errors: Any,
) -> None:
    """A prompt of two rows, then tokens one by one: Triton's and torch's, and weights not rounded;
    errors of float8 are far below the spread of logits. An activation next to the middle of two
    float8 numbers is rounded to either for the least difference in front of it, so the two differ
    as much as the twin does from itself behind embeddings that are half a bfloat16 step off."""
    dims = Qwen3Dims(
        width=sized(2048, 64), layers=sized(8, 2), heads=sized(16, 2), kv_heads=sized(8, 1),
        head_dim=sized(128, 32), ffn=sized(6144, 128), vocab=sized(8192, 64), context=4096,
        eps=1e-6, rope_theta=1e6, rope_sections=None, attention_bias=False, tied_head=True,
    )  # fmt: skip

    def made(fp8: bool, off: float = 0.0) -> Qwen3Model:
        torch.manual_seed(0)
        reader = RandomWeights(Path(), dtype=torch.bfloat16, device=device)
        with torch.inference_mode():
            weights = read_weights(reader, dims, linears=FP8 if fp8 else None)
            drawn = torch.rand(weights.tokens.shape, device=device) * 2 - 1
            weights.tokens.copy_(weights.tokens.float() * (1 + off * drawn))
            model = Qwen3Model(dims, weights)
        if fp8 and keeps_fp8:
            model.cache_dtype = torch.float8_e4m3fn
        return model

    def logits(model: Qwen3Model) -> Tensor:
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

    triton_is(True)
    assert mode() != "off"
    ours, whole = logits(made(True)), logits(made(False))
    triton_is(False)
    theirs, beside = logits(made(True)), logits(made(True, 2**-8))

    def apart(one: Tensor, other: Tensor) -> float:
        return float((one - other).pow(2).mean().sqrt()) / float(theirs.std())

    errors.close(torch.tensor([apart(ours, theirs)]), torch.zeros(1), 1.25 * apart(theirs, beside))
    assert 1e-4 < apart(ours, whole) < 0.3, apart(ours, whole)


def test_the_plain_operation_is_the_one_that_is_compared(device: torch.device) -> None:
    weights, x = matrix(device, 32, 64), draw(device, 2, 3, 64)
    assert torch.equal(linear(x, weights), plain_linear(x, weights))

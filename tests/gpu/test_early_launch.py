"""Early launches change nothing but the time: decoding of few rows, captured, replayed a thousand
times with other tokens each, against the same without them: equal to the last bit."""

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
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.cache import PagedBatch
from lookhear.kernels import INT4, fp8_refusal
from lookhear.kernels.choice import mode
from lookhear.kernels.fp8 import FP8
from tests.gpu.conftest import IS_DRY

pytestmark = pytest.mark.gpu
LINEARS = {"whole": None, "fp8": FP8, "int4": INT4}
PROMPT = 40  # cached tokens in front, random; a row more has three more of them


@pytest.fixture(scope="module", params=LINEARS)
def model(
    device: torch.device, sized: Callable[[int, int], int], request: pytest.FixtureRequest
) -> Qwen3Model:
    """28 layers of the width of Qwen3-ASR 0.6B."""
    is_cards_fp8 = request.param == "fp8" and device.type == "cuda"
    if is_cards_fp8 and (why := fp8_refusal(device)) is not None:
        pytest.skip(why)
    dims = Qwen3Dims(
        width=sized(1024, 64), layers=sized(28, 2), heads=sized(16, 2), kv_heads=sized(8, 1),
        head_dim=sized(128, 32), ffn=sized(3072, 128), vocab=sized(8192, 64), context=4096,
        eps=1e-6, rope_theta=1e6, rope_sections=None, attention_bias=False, tied_head=True,
    )  # fmt: skip
    torch.manual_seed(0)
    dtype = torch.float32 if IS_DRY else torch.bfloat16
    with torch.inference_mode():
        reader = RandomWeights(Path(), dtype=dtype, device=device)
        weights = read_weights(reader, dims, linears=LINEARS[request.param])
    return Qwen3Model(dims, weights)


@torch.inference_mode()
def replayed(model: Qwen3Model, rows: int, steps: int) -> Tensor:
    """[steps, rows, vocab] float32: the logits of tokens that are drawn beforehand, each step
    continuing what the last one wrote, and none waited for."""
    device = model.device
    draw = torch.Generator().manual_seed(rows)
    blocks = -(-(PROMPT + 3 * rows + steps) // BLOCK_TOKENS)
    tables = torch.arange(1, 1 + rows * blocks).view(rows, blocks).to(device)
    cache = model.new_cache(1 + rows * blocks)
    for layer in cache.layers:
        layer.copy_(torch.randn(layer.shape, generator=draw) * 0.5)
    tokens = torch.randint(model.vocab, (steps, rows), generator=draw).to(device)
    lengths = torch.arange(PROMPT, PROMPT + 3 * rows, 3, device=device)[None]
    past = lengths + torch.arange(steps, device=device)[:, None]  # [steps, rows]
    slots = tables.gather(1, (past // BLOCK_TOKENS).T).T * BLOCK_TOKENS + past % BLOCK_TOKENS
    now = [part[0].clone() for part in (tokens, past, slots)]
    ones = torch.ones(rows, dtype=torch.int64, device=device)

    def region() -> Tensor:
        batch = PagedBatch(now[1], now[2], tables, now[1], ones, is_decode=True)
        return model.logits(model.forward(now[0], batch, cache))

    replay: Callable[[], Tensor] = region
    if not IS_DRY:
        graph = CudaBackend(device).capture(region)

        def replay() -> Tensor:
            graph.replay()
            output: Tensor = graph.output
            return output

    found = torch.empty(steps, rows, model.vocab, device=device)
    for step in range(steps):
        for part, whole in zip(now, (tokens, past, slots), strict=True):
            part.copy_(whole[step])
        found[step] = replay()
    return found


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_captured_decoding_is_equal_to_the_last_bit(
    rows: int,
    model: Qwen3Model,
    sized: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mode.cache_clear()
    configs: Any = None
    if not IS_DRY:
        from lookhear.kernels.triton import configs

        if not configs.launches_early():
            pytest.skip("needs a device of compute capability 9.0 and LOOKHEAR_EARLY_LAUNCH")
    steps = sized(1000, 3)
    early = replayed(model, rows, steps)
    with monkeypatch.context() as changes:
        changes.setenv("LOOKHEAR_EARLY_LAUNCH", "off")
        if configs is not None:
            configs.launches_early.cache_clear()
            assert not configs.launches_early()
        late = replayed(model, rows, steps)
    if configs is not None:
        configs.launches_early.cache_clear()
    assert early.isfinite().all() and early.std() > 0
    assert not (early[1:, 0] == early[:-1, 0]).all(1).any()  # each step read something else
    assert torch.equal(early, late)

"""Qwen3-VL in other precisions than float32: what is kept how, and that the answer is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.kernels import supports_half_weights
from tests.engine.batches import paged_batch
from tools.random_checkpoints.qwen3_vl import IMAGE_TOKEN, build_random_qwen3_vl


def build(folder: Path, **text: int) -> Path:
    build_random_qwen3_vl(folder, text=text)
    return folder


def logits(model: Qwen3VLModel) -> Tensor:
    """Of all places of a prompt with a picture in it."""
    factor = model.encoder.dims.factor
    shape = (1, 3, 3 * factor, 2 * factor)
    medium = model.medium(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    tokens = torch.tensor([5, 6, *[IMAGE_TOKEN] * 6, 7, 8])
    inputs, added = model.embed(tokens, torch.arange(2, 8), model.encode([medium])[0])
    positions = torch.from_numpy(model.positions(10, [(2, medium)]).axes.copy())
    batch = paged_batch([[1]], [0], [10], positions=positions)
    hidden = model.decoder.forward(inputs, batch, model.decoder.new_cache(2), added)
    return model.decoder.logits(hidden)


def test_an_encoder_in_bfloat16_before_a_decoder_in_float32(tmp_path: Path) -> None:
    folder = build(tmp_path)
    exact = Qwen3VLModel.from_folder(folder)
    mixed = Qwen3VLModel.from_folder(folder, encoder_dtype=torch.bfloat16)
    assert mixed.encoder.dtype == torch.bfloat16 and mixed.decoder.dtype == torch.float32
    assert mixed.num_parameters == exact.num_parameters
    expected, found = logits(exact), logits(mixed)
    assert (found - expected).norm() <= 0.05 * expected.norm()


@pytest.mark.skipif(not supports_half_weights(), reason="this CPU has no float16 weights")
def test_a_large_bfloat16_head_is_kept_in_float16_and_is_more_exact(tmp_path: Path) -> None:
    folder = build(tmp_path, vocab_size=4000)
    short = Qwen3VLModel.from_folder(folder, dtype=torch.bfloat16)
    head = short.decoder.weights.head
    assert head.half is not None and head.out_features == 4000
    hidden = torch.randn(3, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
    expected = hidden.float() @ short.decoder.weights.tokens.float().T
    torch.testing.assert_close(short.decoder.logits(hidden), expected, atol=1e-4, rtol=1e-4)
    exact = logits(Qwen3VLModel.from_folder(folder))
    assert (logits(short) - exact).norm() <= 0.1 * exact.norm()

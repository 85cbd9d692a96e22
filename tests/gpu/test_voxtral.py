"""A Voxtral Realtime on the kernels, and on torch: the same numbers, and the same tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.stack import Delays, batch_of
from lookhear.engine.voxtral.windows import Windows
from tests.gpu.test_models import Chooser, Sized, compare
from tools.random_checkpoints.voxtral import build_random_voxtral

pytestmark = pytest.mark.gpu


def test_voxtral(
    device: torch.device, sized: Sized, errors: Any, triton_is: Chooser, tmp_path: Path
) -> None:
    """Longer than its windows, beside another recording of another delay."""
    heads = sized(8, 2)
    build_random_voxtral(
        tmp_path,
        audio={"hidden_size": 64 * heads, "head_dim": 64, "intermediate_size": 128 * heads,
               "num_attention_heads": heads, "sliding_window": sized(75, 10)},
        text={"hidden_size": 128 * heads, "head_dim": 128, "intermediate_size": 256 * heads,
              "num_attention_heads": heads, "sliding_window": sized(40, 9)},
    )  # fmt: skip
    model = VoxtralModel.from_folder(tmp_path, device=device)
    steps, turns = sized(5, 2), sized(30, 4)
    windows = [Windows(80, stack.window) for stack in (model.dims.audio, model.dims.text)]
    frames = torch.randn(2, turns, 8 * steps, model.dims.num_mels).mul(0.5).to(device)
    delays = torch.stack([model.decoder.scales(delay) for delay in (2, 6)])
    whose = torch.tensor([0] * steps + [1] * steps, device=device)

    def outcome() -> tuple[list[Tensor], list[int]]:
        states = [model.encoder.begin() for _ in frames]
        lanes = [[own.begin() for _ in frames] for own in windows]
        caches = [stack.new_cache(80) for stack in (model.encoder.stack, model.decoder.stack)]
        tokens, numbers, chosen = torch.zeros_like(whose), [], []
        for turn in range(turns):
            places, states = model.encoder.join(states, frames[:, turn])
            work = [
                [(lane, count) for lane in own]
                for own, count in zip(lanes, (4 * steps, steps), strict=True)
            ]
            batches = [
                batch_of(own.place(new), device) for own, new in zip(windows, work, strict=True)
            ]
            heard = model.encoder.encode(list(places), batches[0], caches[0])
            hidden = model.decoder.forward(
                tokens, heard, Delays(delays, whose), batches[1], caches[1]
            )
            numbers += [heard, model.decoder.logits(hidden)]
            tokens = numbers[-1].argmax(-1)
            chosen += tokens.tolist()
            for own, new in zip(windows, work, strict=True):
                own.move(new)
        for own, open_ones in zip(windows, lanes, strict=True):
            for lane in open_ones:
                own.end(lane)
        return numbers, chosen

    compare(triton_is, errors, outcome)

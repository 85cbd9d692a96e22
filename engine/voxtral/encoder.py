"""The encoder of a Voxtral Realtime: every place hears what is behind it alone, 15 s of it.

    log-mel frames (10 ms) -> two convolutions -> places (20 ms) -> layers -> four of them: a step

Nothing is encoded twice, and nothing changes: what the convolutions read next is kept in a
`StemState`, keys and values are in the paged cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.voxtral.dims import VoxtralDims
from lookhear.engine.voxtral.stack import Stack
from lookhear.engine.voxtral.weights import EncoderWeights
from lookhear.kernels import linear

STRIDES = (1, 2)
KERNEL = 3


@dataclass(frozen=True, slots=True)
class StemState:
    """What the next output of each convolution reads of its input: [channels, 2], [width, 1]."""

    unread: tuple[Tensor, ...]


class Encoder:
    """One pass is over steps of several recordings."""

    def __init__(self, dims: VoxtralDims, weights: EncoderWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.stack = Stack(dims.audio, weights.stack)

    def begin(self) -> StemState:
        """Of a new recording: silence without any sound stands in front of it."""
        stack, channels = self.stack, (self.dims.num_mels, self.dims.audio.width)
        return StemState(
            tuple(
                torch.zeros(inside, KERNEL - stride, dtype=stack.dtype, device=stack.device)
                for inside, stride in zip(channels, STRIDES, strict=True)
            )
        )

    @torch.inference_mode()
    def join(self, states: Sequence[StemState], frames: Tensor) -> tuple[Tensor, list[StemState]]:
        """frames: [n, 8 * steps, mels] log-mel, of as many recordings. Returns places,
        [n, 4 * steps, width], and what the next ones read."""
        x, unread = frames.to(self.stack.dtype).transpose(1, 2), []
        for number, (stride, (weight, bias)) in enumerate(
            zip(STRIDES, self.weights.stem, strict=True)
        ):
            before = torch.stack([state.unread[number] for state in states])
            x = torch.cat([before, x], 2)
            # Of its own: a part would keep all of it.
            unread.append(x[:, :, x.shape[2] - before.shape[2] :].clone())
            x = F.gelu(F.conv1d(x, weight, bias, stride=stride))
        left = [StemState(own) for own in zip(*unread, strict=True)]
        return x.transpose(1, 2).contiguous(), left

    @torch.inference_mode()
    def encode(self, places: Sequence[Tensor], batch: PagedBatch, cache: PagedCache) -> Tensor:
        """places: of each recording. Returns [steps, width of the decoder], one behind another."""
        x = self.stack.forward(torch.cat(list(places)), batch, cache)
        first, second = self.weights.project
        x = x.view(-1, self.dims.places * self.dims.audio.width)
        return linear(linear(x, first, "gelu"), second)

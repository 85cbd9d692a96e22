"""The encoder of a Parakeet: a conformer that hears a recording as a whole.

    log-mel frames, each band less its mean and over its deviation -> convolutions -> places (80 ms)
        -> layers: half a feed-forward, attention to all, a convolution over time, half of another

Recordings are encoded one after another: what one says depends on no other, and none is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.parakeet.dims import ParakeetDims
from lookhear.engine.transducer.encoder import THETA
from lookhear.engine.transducer.weights import Attention, Convolution, EncoderWeights, Half, Layer
from lookhear.kernels import linear

FLAT = 1e-5  # is added to the deviation of a band


@dataclass(eq=False, slots=True)
class Encoder:
    """In the checkpoint's precision."""

    dims: ParakeetDims
    weights: EncoderWeights

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        return self.weights.layers[0].attention.far.dtype

    @property
    def device(self) -> torch.device:
        """Of everything."""
        return self.weights.layers[0].attention.far.device

    def begin(self, chunk: int) -> Any:
        """Nothing is left to a next piece: there is none."""
        return None

    @torch.inference_mode()
    def encode(self, frames: Tensor) -> Tensor:
        """frames: [n, mels] log-mel of a whole recording. Returns [places, width]."""
        dims = self.dims.encoder
        x = self._join(normalised(frames).to(self.dtype)) * dims.scale
        count = len(x)
        steps = torch.arange(0, dims.width, 2, device=self.device) / dims.width
        ahead = torch.arange(count - 1, -count, -1, device=self.device)
        angles = ahead[:, None].float() * (1.0 / THETA**steps)
        sines = torch.stack([angles.sin(), angles.cos()], 2).flatten(1).to(self.dtype)
        queries = torch.arange(count, device=self.device)
        distances = count - 1 - (queries[:, None] - queries[None])  # as an index of the sines
        for layer in self.weights.layers:
            x = self._layer(layer, x, sines, distances)
        return x

    def _join(self, frames: Tensor) -> Tensor:
        size, stride = self.dims.encoder.stage_kernel, self.dims.encoder.stride
        x, padding = frames[None, None], (size - 1) // 2
        for stage in self.weights.stages:
            groups = 1 if stage.point is None else self.dims.encoder.channels
            x = F.conv2d(x, *stage.conv, stride=stride, padding=padding, groups=groups)
            if stage.point is not None:
                x = F.conv2d(x, *stage.point)
            x = x.relu()
        return linear(x.transpose(1, 2).flatten(2), self.weights.join)[0]

    def _layer(self, layer: Layer, x: Tensor, sines: Tensor, distances: Tensor) -> Tensor:
        x = x + 0.5 * _half(layer.first, x)
        x = x + self._attend(layer.attention, x, sines, distances)
        x = x + self._convolve(layer.convolution, x)
        return layer.norm(x + 0.5 * _half(layer.second, x))

    def _attend(self, attention: Attention, x: Tensor, sines: Tensor, distances: Tensor) -> Tensor:
        dims = self.dims.encoder
        qkv = linear(attention.norm(x), attention.qkv).view(len(x), 3, dims.heads, dims.head_dim)
        q, k, v = (part.transpose(0, 1) for part in qkv.unbind(1))  # [heads, places, head_dim]
        far = F.linear(sines, attention.far).view(-1, dims.heads, dims.head_dim).permute(1, 2, 0)
        scores = (q + attention.content[:, None]) @ k.transpose(1, 2)
        by_distance = (q + attention.place[:, None]) @ far
        scores = scores + by_distance.gather(2, distances.expand(dims.heads, -1, -1))
        mixed = scores.float().softmax(2).to(v.dtype) @ v
        return linear(mixed.transpose(0, 1).flatten(1), attention.out)

    def _convolve(self, convolution: Convolution, x: Tensor) -> Tensor:
        dims = self.dims.encoder
        gated = F.glu(linear(convolution.norm(x), convolution.gate), 1)
        deep = F.conv1d(
            gated.t()[None],
            *convolution.depth,
            padding=(dims.kernel - 1) // 2,
            groups=dims.width,
        )
        return linear(F.silu(deep[0].t()).contiguous(), convolution.out)


def normalised(frames: Tensor) -> Tensor:
    """frames: [n, mels]. Each band less its mean, over its deviation."""
    mean = frames.mean(0)
    deviation = (frames - mean).square().sum(0).div(max(1, len(frames) - 1)).sqrt()
    return (frames - mean) / (deviation + FLAT)


def _half(half: Half, x: Tensor) -> Tensor:
    return linear(F.silu(linear(half.norm(x), half.up)), half.down)

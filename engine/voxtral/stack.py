"""Layers that attend to the last tokens behind them alone, on a paged cache: both the encoder's and
the decoder's, which differ in geometry, and in that the decoder's are told a delay.

    x -> norm, attention -> + x -> norm, times 1 + what the delay says, gated feed-forward -> + x

Where tokens lie in the cache is said by `engine.voxtral.windows`: blocks behind the window are
gone, and tables begin with the first that is left. Keys carry their true positions all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.device.staging import to_device
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.voxtral.dims import StackDims
from lookhear.engine.voxtral.weights import StackWeights
from lookhear.engine.voxtral.windows import Placed
from lookhear.kernels import (
    Span,
    add_rms_norm,
    linear,
    norm_linear,
    paged_attention,
    paged_write,
    rms_norm,
    rope,
    rope_angles,
    rope_frequencies,
    spans,
    swiglu,
)

THETA = 10_000.0  # of the sines that a delay is told by


@dataclass(frozen=True, slots=True)
class Delays:
    """scales: [delays, layers, width], by what the decoder's feed-forward layers read is multiplied
    for each; which: [tokens] int64, whose is whose."""

    scales: Tensor
    which: Tensor


def batch_of(placed: Placed, device: torch.device) -> PagedBatch:
    """The same on the device."""
    positions, slots, tables, past, new = (to_device(own, torch.int64, device) for own in placed)
    return PagedBatch(positions, slots, tables, past, new)


class Stack:
    """One pass is over new tokens of several recordings."""

    def __init__(self, dims: StackDims, weights: StackWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.norm.dtype
        self.device = weights.norm.device
        self._frequencies = rope_frequencies(dims.head_dim, dims.theta).to(self.device)

    def new_cache(self, num_blocks: int) -> PagedCache:
        """Of its shape; num_blocks: the trash block included."""
        dims = self.dims
        return PagedCache(
            dims.layers, num_blocks, dims.kv_heads, dims.head_dim, self.dtype, self.device
        )

    @torch.inference_mode()
    def forward(
        self, x: Tensor, batch: PagedBatch, cache: PagedCache, delays: Delays | None = None
    ) -> Tensor:
        """x: [tokens, width], packed as `PagedBatch` says; its positions are true, its lengths what
        the tables hold. Writes keys and values. Returns [tokens, width]."""
        dims = self.dims
        angles = rope_angles(batch.positions, self._frequencies, self.dtype)
        known: list[Span] | None = None
        if self.device.type == "cpu":
            block = cache.layers[0].shape[2]
            known = spans(batch.block_tables, batch.past_lengths, batch.query_lengths, block)
        turned = dims.heads + dims.kv_heads
        change: Tensor | None = None  # of the layer before, not yet added to x
        for index, (layer, held) in enumerate(zip(self.weights.layers, cache.layers, strict=True)):
            qkv, x = norm_linear(x, change, layer.attention_norm, dims.eps, layer.qkv)
            qkv = qkv.view(len(x), -1, dims.head_dim)
            qk = rope(qkv[:, :turned], *angles)
            paged_write(qk[:, dims.heads :], qkv[:, turned:], held, batch.slots)
            y = paged_attention(
                qk[:, : dims.heads],
                held,
                batch.block_tables,
                batch.past_lengths,
                batch.query_lengths,
                known=known,
                window=dims.window,
            )
            change = linear(y.flatten(1), layer.out)
            normed, x = add_rms_norm(change, x, layer.ffn_norm, dims.eps)
            if delays is not None:
                normed = normed * delays.scales[:, index][delays.which]
            change = linear(swiglu(linear(normed, layer.gate_up)), layer.down)
        if change is None:
            return rms_norm(x, self.weights.norm, dims.eps)
        return add_rms_norm(change, x, self.weights.norm, dims.eps)[0]

    @torch.inference_mode()
    def scales(self, delay: int) -> Tensor:
        """What each layer makes of so many steps of delay: [layers, width]."""
        half = self.dims.width // 2
        steps = torch.arange(half, device=self.device).float() / half
        angles = delay * torch.exp(-math.log(THETA) * steps)
        told = torch.cat([angles.cos(), angles.sin()]).to(self.dtype)
        found = []
        for layer in self.weights.layers:
            assert layer.delay is not None
            first, second = layer.delay
            found.append(1 + F.linear(F.gelu(F.linear(told, first)), second))
        return torch.stack(found)

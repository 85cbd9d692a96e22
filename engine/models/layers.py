"""Weights of the layers that encoders share: what Whisper, Qwen3-ASR and Qwen3-VL are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from lookhear.kernels import LinearWeights, add_layer_norm_, layer_norm


class Source(Protocol):
    """Where weights are taken from. See `WeightSource`."""

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor of that name, checked for its shape."""
        ...


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer norm. weight, bias: [width]."""

    weight: Tensor
    bias: Tensor
    eps: float = 1e-5

    @classmethod
    def read(cls, source: Source, name: str, width: int, eps: float = 1e-5) -> Norm:
        """The two tensors under a name of the checkpoint."""
        return cls(source.take(f"{name}.weight", width), source.take(f"{name}.bias", width), eps)

    def __call__(self, x: Tensor) -> Tensor:
        """x: [..., width], left as it is."""
        return layer_norm(x, self.weight, self.bias, self.eps)

    def add_(self, change: Tensor, x: Tensor) -> Tensor:
        """Adds to the residual stream x, in place, what a layer gave; returns it normalised."""
        return add_layer_norm_(change, x, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class SelfAttention:
    """qkv: [3 * width, width], the query part already scaled by head_dim ** -0.5."""

    norm: Norm
    qkv: LinearWeights
    out: LinearWeights


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A GELU between up [ffn, width] and down [width, ffn], behind a norm."""

    norm: Norm
    up: LinearWeights
    down: LinearWeights


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """Self-attention, then the feed-forward; both beside a residual stream."""

    attention: SelfAttention
    ffn: FeedForward

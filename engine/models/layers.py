"""Weights of the layers that encoders share: what Whisper, Qwen3-ASR and Qwen3-VL are made of."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lookhear.kernels import LinearWeights


@dataclass(frozen=True, slots=True)
class Norm:
    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class SelfAttention:
    """qkv: [3 * width, width], the query part already scaled by head_dim ** -0.5."""

    norm: Norm
    qkv: LinearWeights
    out: LinearWeights


@dataclass(frozen=True, slots=True)
class FeedForward:
    norm: Norm
    up: LinearWeights
    down: LinearWeights


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    attention: SelfAttention
    ffn: FeedForward

"""Qwen3's feed-forward layers: dense, or of experts of which each token goes through a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, whole_number
from lookhear.engine.models.layers import WeightSource
from lookhear.kernels import (
    ExpertWeights,
    LinearWeights,
    add_rms_norm,
    linear,
    mixed_experts,
    norm_linear,
    route,
)


@dataclass(frozen=True, slots=True)
class ExpertDims:
    """count: of experts in a layer. per_token: of those that a token goes through. ffn: an
    expert's. normalises: see `route`. layers: which of the decoder's have experts."""

    count: int
    per_token: int
    ffn: int
    normalises: bool
    layers: frozenset[int]

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: Path, num_layers: int
    ) -> ExpertDims | None:
        """Of a parsed config; None if it names no experts. Raises `CheckpointError`."""
        names = ("num_experts", "num_local_experts")  # as transformers 4 and 5 write it
        if not any(config.get(name) for name in names):
            return None
        count = whole_number(config, source, *names)
        per_token = whole_number(config, source, "num_experts_per_tok")
        if per_token > count:
            raise CheckpointError.of(
                source, "num_experts_per_tok", f"at most num_experts ({count})", per_token
            )
        every = whole_number({"decoder_sparse_step": 1, **config}, source, "decoder_sparse_step")
        dense = config.get("mlp_only_layers") or []
        if not isinstance(dense, list) or not all(type(number) is int for number in dense):
            raise CheckpointError.of(source, "mlp_only_layers", "a list of whole numbers", dense)
        return cls(
            count=count,
            per_token=per_token,
            ffn=whole_number(config, source, "moe_intermediate_size"),
            # Qwen3-VL's does it whatever its file says.
            normalises="qwen3_vl" in str(config.get("model_type"))
            # A file may leave out what is its family's default.
            or bool(config.get("norm_topk_prob", "omni" in str(config.get("model_type")))),
            layers=frozenset(
                layer
                for layer in range(num_layers)
                if layer not in dense and (layer + 1) % every == 0
            ),
        )


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    """gate_up: [2 * ffn, width]. down: [width, ffn]."""

    gate_up: LinearWeights
    down: LinearWeights

    def __call__(
        self, x: Tensor, change: Tensor, norm: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """x, change: [tokens, width], the residual stream and what attention adds to it. Returns
        what this layer adds, a tensor of its own, and x + change."""
        y, x = norm_linear(x, change, norm, eps, self.gate_up, gated=True)
        return linear(y, self.down), x


@dataclass(frozen=True, slots=True)
class SparseFeedForward:
    """router: [experts, width], float32 whatever the precision: a rounded one would send tokens
    elsewhere."""

    router: Tensor
    experts: ExpertWeights
    per_token: int
    normalises: bool

    def __call__(
        self, x: Tensor, change: Tensor, norm: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """As `DenseFeedForward`."""
        normed, x = add_rms_norm(change, x, norm, eps)
        chosen, shares = route(normed, self.router, self.per_token, normalises=self.normalises)
        return mixed_experts(normed, chosen, shares, self.experts), x


def read_dense(source: WeightSource, mlp: str, width: int, ffn: int) -> DenseFeedForward:
    """mlp: its name in the checkpoint."""
    return DenseFeedForward(
        gate_up=source.linear(mlp, {"gate_proj": ffn, "up_proj": ffn}, width),
        down=source.linear(mlp, {"down_proj": width}, ffn),
    )


def read_sparse(source: WeightSource, mlp: str, width: int, dims: ExpertDims) -> SparseFeedForward:
    """mlp: its name in the checkpoint."""
    router = source.take(f"{mlp}.gate.weight", dims.count, width).float()
    name = f"{mlp}.experts"
    pairs = (_fused if f"{name}.gate_up_proj" in source else _one_by_one)(source, name, width, dims)
    experts = source.experts(pairs, dims.count)
    return SparseFeedForward(router, experts, dims.per_token, dims.normalises)


def _one_by_one(
    source: WeightSource, name: str, width: int, dims: ExpertDims
) -> Iterator[tuple[Tensor, Tensor]]:
    """Gates above ups, and down, of one expert after another; as Qwen3-MoE is stored."""
    for expert in range(dims.count):
        gate, up = (
            source.take(f"{name}.{expert}.{part}_proj.weight", dims.ffn, width)
            for part in ("gate", "up")
        )
        down = source.take(f"{name}.{expert}.down_proj.weight", width, dims.ffn)
        yield torch.cat([gate, up]), down


def _fused(
    source: WeightSource, name: str, width: int, dims: ExpertDims
) -> Iterator[tuple[Tensor, Tensor]]:
    """The same of a layer whose experts are two tensors. Qwen stores them input by output, and
    transformers 5 may write them output by input: where both would do, it is that."""
    found = []
    for part, out, inside in (("gate_up", 2 * dims.ffn, width), ("down", width, dims.ffn)):
        shapes = (dims.count, out, inside), (dims.count, inside, out)
        tensor = source.take_either(f"{name}.{part}_proj", *shapes)
        found.append(tensor if tuple(tensor.shape) == shapes[0] else tensor.transpose(1, 2))
    for gate_up, down in zip(*found, strict=True):
        yield gate_up.contiguous(), down.contiguous()

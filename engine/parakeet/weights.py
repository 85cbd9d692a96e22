"""Weights of a Parakeet: from a Hugging Face folder to what the kernels take. Most are called as a
streaming transducer's are."""

from __future__ import annotations

from typing import cast

from lookhear.engine.checkpoints.loader import CheckpointReader
from lookhear.engine.models.layers import Norm
from lookhear.engine.parakeet.dims import ParakeetDims
from lookhear.engine.transducer.dims import TransducerDims
from lookhear.engine.transducer.weights import (
    Convolution,
    EncoderWeights,
    Stage,
    TransducerSource,
)

NORM_EPS = 1e-5  # of torch's batch norm


class ParakeetSource(TransducerSource):
    """Hugging Face's tensor names, put together into our layers."""

    def __init__(self, reader: CheckpointReader, dims: ParakeetDims, *, half: bool = False) -> None:
        # Of those the base asks for what both have.
        super().__init__(reader, cast(TransducerDims, dims), half=half)
        self._own = dims

    def encoder(self) -> EncoderWeights:
        """All of its tensors; out: to the predictor's width, or to tokens."""
        own, dims = self._own, self._own.encoder
        size, channels, name = dims.stage_kernel, dims.channels, "encoder.subsampling"
        stages = [Stage(self._conv(f"{name}.layers.0", channels, 1, size, size), None)]
        for index in range(dims.stages - 1):
            stages.append(
                Stage(
                    self._conv(f"{name}.layers.{3 * index + 2}", channels, 1, size, size),
                    self._conv(f"{name}.layers.{3 * index + 3}", channels, channels, 1, 1),
                )
            )
        return EncoderWeights(
            stages=stages,
            join=self._product(f"{name}.linear", dims.width, channels * own.bands),
            layers=[self._layer(f"encoder.layers.{i}") for i in range(dims.layers)],
            prompt=None,
            out=self._product("encoder_projector", own.width, dims.width)
            if own.layers
            else self._product("ctc_head", own.vocab, dims.width),
        )

    def _convolution(self, name: str) -> Convolution:
        """With the batch norm behind it in it."""
        dims, inner = self._own.encoder, f"{name}.conv"
        width, has_bias = dims.width, dims.conv_bias
        depth = self.take(f"{inner}.depthwise_conv.weight", width, 1, dims.kernel)
        added = self.take(f"{inner}.depthwise_conv.bias", width) if has_bias else 0.0
        mean, variance, scale, shift = (
            self.take(f"{inner}.norm.{part}", width).double()
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        by = scale / (variance + NORM_EPS).sqrt()
        bias = (added - mean) * by + shift
        return Convolution(
            norm=Norm.read(self, f"{name}.norm_conv", width),
            gate=self._product(f"{inner}.pointwise_conv1", 2 * width, width, bias=has_bias),
            depth=((depth * by[:, None, None]).to(depth.dtype), bias.to(depth.dtype)),
            inner=None,
            out=self._product(f"{inner}.pointwise_conv2", width, width, bias=has_bias),
        )

"""Weights of a streaming transducer: from a Hugging Face folder to what the kernels take."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader
from lookhear.engine.models.layers import Norm, WeightSource
from lookhear.engine.transducer.dims import TransducerDims
from lookhear.kernels import LinearWeights, pack_linear


@dataclass(frozen=True, slots=True)
class Stage:
    """A convolution over frames and bands, of all channels or of each; behind the latter a product
    over channels. Weights and biases as torch's `conv2d` takes them."""

    conv: tuple[Tensor, Tensor]
    point: tuple[Tensor, Tensor] | None


@dataclass(frozen=True, slots=True)
class Half:
    """A feed-forward layer, of which half is added. up: [ffn, width]."""

    norm: Norm
    up: LinearWeights
    down: LinearWeights


@dataclass(frozen=True, slots=True)
class Attention:
    """qkv: queries are scaled by head_dim ** -0.5, and so are content and place, [heads, head_dim]:
    what is added to them for keys, and for how far these are. far: [width, width], of sines."""

    norm: Norm
    qkv: LinearWeights
    out: LinearWeights
    content: Tensor
    place: Tensor
    far: Tensor


@dataclass(frozen=True, slots=True)
class Convolution:
    """gate: [2 * width, width]. depth: [width, 1, kernel] and its bias or None. inner: behind it;
    None where it is part of it (a batch norm)."""

    norm: Norm
    gate: LinearWeights
    depth: tuple[Tensor, Tensor | None]
    inner: Norm | None
    out: LinearWeights


@dataclass(frozen=True, slots=True)
class Layer:
    """Of a conformer."""

    first: Half
    attention: Attention
    convolution: Convolution
    second: Half
    norm: Norm


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """join: [width, channels * bands]. prompt: of the two products that make it hear a language.
    out: to the predictor's width."""

    stages: list[Stage]
    join: LinearWeights
    layers: list[Layer]
    prompt: tuple[LinearWeights, LinearWeights] | None
    out: LinearWeights


@dataclass(frozen=True, slots=True)
class PredictorWeights:
    """Float32. tokens: [vocab, width]. cells: [4 * width, 2 * width] of each LSTM layer: gates of
    its input and of its last output. out: [width, width]. head: [vocab, width]."""

    tokens: Tensor
    cells: list[LinearWeights]
    out: LinearWeights
    head: LinearWeights


class TransducerSource(WeightSource):
    """Hugging Face's tensor names, put together into our layers."""

    def __init__(
        self, reader: CheckpointReader, dims: TransducerDims, *, half: bool = False
    ) -> None:
        super().__init__(reader, half=half)
        self._dims = dims

    def encoder(self) -> EncoderWeights:
        """All of its tensors."""
        dims, own = self._dims.encoder, self._dims
        size, channels = dims.stage_kernel, dims.channels
        name = "encoder.subsampling"
        stages = [Stage(self._conv(f"{name}.conv_in", channels, 1, size, size), None)]
        for index in range(dims.stages - 1):
            stages.append(
                Stage(
                    self._conv(f"{name}.layers.{index}.depthwise_conv", channels, 1, size, size),
                    self._conv(f"{name}.layers.{index}.pointwise_conv", channels, channels, 1, 1),
                )
            )
        prompt = None
        if own.prompts:
            inside = dims.width + own.prompts
            prompt = (
                self._product("prompt_projector.linear_1", own.prompt_width, inside),
                self._product("prompt_projector.linear_2", dims.width, own.prompt_width),
            )
        return EncoderWeights(
            stages=stages,
            join=self._product(f"{name}.linear", dims.width, channels * dims.bands),
            layers=[self._layer(f"encoder.layers.{i}") for i in range(dims.layers)],
            prompt=prompt,
            out=self._product("encoder_projector", own.width, dims.width),
        )

    def predictor(self, more: int = 0) -> PredictorWeights:
        """All of its tensors, and the head's. more: logits behind those of tokens."""
        dims, width = self._dims, self._dims.width
        cells = []
        for layer in range(dims.layers):
            parts = [
                self.take(f"decoder.lstm.weight_{part}_l{layer}", 4 * width, width).float()
                for part in ("ih", "hh")
            ]
            bias = sum(
                self.take(f"decoder.lstm.bias_{part}_l{layer}", 4 * width).float()
                for part in ("ih", "hh")
            )
            assert isinstance(bias, Tensor)
            cells.append(pack_linear(torch.cat(parts, 1), bias, pack=True))
        return PredictorWeights(
            tokens=self.take("decoder.embedding.weight", dims.vocab, width).float(),
            cells=cells,
            out=self._product("decoder.decoder_projector", width, width, is_exact=True),
            head=self._product("joint.head", dims.vocab + more, width, is_exact=True),
        )

    def _conv(
        self, name: str, out: int, inside: int, high: int, wide: int
    ) -> tuple[Tensor, Tensor]:
        return self.take(f"{name}.weight", out, inside, high, wide), self.take(f"{name}.bias", out)

    def _product(
        self, name: str, out: int, inside: int, *, bias: bool = True, is_exact: bool = False
    ) -> LinearWeights:
        """Also of a convolution of one place. is_exact: in float32."""
        weight = self.take_either(f"{name}.weight", (out, inside), (out, inside, 1))
        weight = weight.reshape(out, inside)
        added = self.take(f"{name}.bias", out) if bias else None
        if is_exact:
            weight, added = weight.float(), None if added is None else added.float()
        return pack_linear(weight, added, pack=True, half=self._half and not is_exact)

    def _layer(self, name: str) -> Layer:
        width = self._dims.encoder.width
        return Layer(
            self._feed(name, 1),
            self._attention(name),
            self._convolution(name),
            self._feed(name, 2),
            Norm.read(self, f"{name}.norm_out", width),
        )

    def _feed(self, name: str, index: int) -> Half:
        dims, inner = self._dims.encoder, f"{name}.feed_forward{index}"
        return Half(
            Norm.read(self, f"{name}.norm_feed_forward{index}", dims.width),
            self._product(f"{inner}.linear1", dims.ffn, dims.width, bias=dims.has_bias),
            self._product(f"{inner}.linear2", dims.width, dims.ffn, bias=dims.has_bias),
        )

    def _attention(self, name: str) -> Attention:
        dims, inner = self._dims.encoder, f"{name}.self_attn"
        width, scale = dims.width, dims.head_dim**-0.5
        weights = [self.take(f"{inner}.{part}_proj.weight", width, width) for part in "qkv"]
        biases = []
        if dims.has_bias:
            biases = [self.take(f"{inner}.{part}_proj.bias", width) for part in "qkv"]
            biases[0] = biases[0] * scale
        weights[0] = weights[0] * scale
        added = (self.take(f"{inner}.bias_{part}", dims.heads, dims.head_dim) for part in "uv")
        content, place = (tensor * scale for tensor in added)
        return Attention(
            norm=Norm.read(self, f"{name}.norm_self_att", width),
            qkv=pack_linear(
                torch.cat(weights),
                torch.cat(biases) if biases else None,
                pack=True,
                half=self._half,
            ),
            out=self._product(f"{inner}.o_proj", width, width, bias=dims.has_bias),
            content=content,
            place=place,
            far=self.take(f"{inner}.relative_k_proj.weight", width, width),
        )

    def _convolution(self, name: str) -> Convolution:
        dims, inner = self._dims.encoder, f"{name}.conv"
        width, has_bias = dims.width, dims.conv_bias
        depth = self.take(f"{inner}.depthwise_conv.weight", width, 1, dims.kernel)
        added = self.take(f"{inner}.depthwise_conv.bias", width) if has_bias else None
        return Convolution(
            norm=Norm.read(self, f"{name}.norm_conv", width),
            gate=self._product(f"{inner}.pointwise_conv1", 2 * width, width, bias=has_bias),
            depth=(depth, added),
            inner=Norm.read(self, f"{inner}.norm", width),
            out=self._product(f"{inner}.pointwise_conv2", width, width, bias=has_bias),
        )

"""Whisper's encoder: from log-mel to what a decoder reads. Models that chat have it, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    SelfAttention,
    WeightSource,
)
from lookhear.engine.whisper.settled import SettledAudio
from lookhear.engine.whisper.silence import EncodedSilence
from lookhear.kernels import LinearWeights, attention, gelu_, linear, pack_conv, pack_linear

KeysValues = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class EncoderDims:
    """What fixes its shapes. positions: of the longest window, 1500 for 30 s."""

    num_mels: int
    width: int
    layers: int
    heads: int
    ffn: int
    positions: int

    @property
    def max_frames(self) -> int:
        """Log-mel frames (10 ms each) of the longest window."""
        return 2 * self.positions


class EncoderSource(WeightSource):
    """Hugging Face's tensor names, put together into layers. tower: what the encoder's begin with:
    they see a window's positions at once. int8: see `pack_linear`."""

    def __init__(
        self,
        reader: CheckpointReader,
        width: int,
        tower: str,
        *,
        dtype: torch.dtype | None = None,
        half: bool = False,
        int8: bool = False,
    ) -> None:
        super().__init__(reader, dtype, half=half)
        self.width, self.tower = width, tower
        self._int8 = int8

    def conv(self, name: str, channels: int) -> tuple[Tensor, Tensor]:
        """Weight and bias of a convolution over time."""
        weight = self.take(f"{name}.weight", self.width, channels, 3)[:, :, None]
        return pack_conv(weight), self.take(f"{name}.bias", self.width)

    def norm(self, name: str) -> Norm:
        """Of the width."""
        return Norm.read(self, name, self.width)

    def projection(self, name: str, *, bias: bool = True) -> tuple[Tensor, Tensor]:
        """A square projection; a missing bias (Whisper's keys have none) is zero."""
        width = self.width
        weight = self.take(f"{name}.weight", width, width)
        return weight, self.take(f"{name}.bias", width) if bias else weight.new_zeros(width)

    def query(self, name: str, heads: int) -> tuple[Tensor, Tensor]:
        """Scaled, so that attention need not."""
        weight, bias = self.projection(f"{name}.q_proj")
        scale = self.scale(heads)
        return weight * scale, bias * scale

    def scale(self, heads: int) -> float:
        """Of queries."""
        return float((self.width // heads) ** -0.5)

    def output(self, name: str) -> LinearWeights:
        """Behind attention."""
        return self.fused(name, {"out_proj": self.projection(f"{name}.out_proj")})

    def self_attention(self, layer: str, heads: int) -> SelfAttention:
        """Of a layer."""
        name = f"{layer}.self_attn"
        return SelfAttention(
            norm=self.norm(f"{layer}.self_attn_layer_norm"),
            qkv=self.fused(
                name,
                {
                    "q_proj": self.query(name, heads),
                    "k_proj": self.projection(f"{name}.k_proj", bias=False),
                    "v_proj": self.projection(f"{name}.v_proj"),
                },
                {"q_proj": self.scale(heads)},
            ),
            out=self.output(name),
        )

    def feed_forward(self, layer: str, ffn: int) -> FeedForward:
        """Of a layer."""
        width = self.width
        up = (self.take(f"{layer}.fc1.weight", ffn, width), self.take(f"{layer}.fc1.bias", ffn))
        down = (self.take(f"{layer}.fc2.weight", width, ffn), self.take(f"{layer}.fc2.bias", width))
        norm = self.norm(f"{layer}.final_layer_norm")
        return FeedForward(norm, self.fused(layer, {"fc1": up}), self.fused(layer, {"fc2": down}))

    def fused(
        self,
        name: str,
        parts: Mapping[str, tuple[Tensor, Tensor]],
        scales: Mapping[str, float] | None = None,
        *,
        many_rows: bool = False,
    ) -> LinearWeights:
        """One matrix product instead of several over the same input. scales: see `placed`."""
        weights, biases = zip(*parts.values(), strict=True)
        # Over many rows the packed layout pays at any size, if only by the GELU that it does in
        # place.
        pack = True if many_rows or name.startswith(self.tower) else None
        packed = pack_linear(
            torch.cat(weights), torch.cat(biases), pack=pack, half=self._half, int8=self._int8
        )
        sizes = {part: len(weight) for part, (weight, _) in parts.items()}
        return self.placed(name, sizes, packed, scales)


@dataclass(frozen=True, slots=True)
class WhisperEncoder:
    """Its weights, and the passes over them. Convolutions are of `pack_conv`, [out, in, 1, 3], and
    [out]; positions: [positions, width]."""

    conv1: tuple[Tensor, Tensor]
    conv2: tuple[Tensor, Tensor]
    positions: Tensor
    layers: list[EncoderLayer]
    norm: Norm
    heads: int

    @classmethod
    def read(cls, source: EncoderSource, dims: EncoderDims) -> WhisperEncoder:
        """Takes its tensors, below `source.tower`."""
        tower = source.tower
        return cls(
            conv1=source.conv(f"{tower}.conv1", dims.num_mels),
            conv2=source.conv(f"{tower}.conv2", dims.width),
            positions=source.take(f"{tower}.embed_positions.weight", dims.positions, dims.width),
            layers=[
                EncoderLayer(
                    source.self_attention(f"{tower}.layers.{i}", dims.heads),
                    source.feed_forward(f"{tower}.layers.{i}", dims.ffn),
                )
                for i in range(dims.layers)
            ],
            norm=source.norm(f"{tower}.layer_norm"),
            heads=dims.heads,
        )

    def convolved(
        self,
        log_mel: Tensor,
        first: int = 0,
        last: int | None = None,
        places: Sequence[int] = (),
    ) -> Tensor:
        """log_mel: [batch, mels, frames]. [batch, positions, width], of those that it gives those
        from first to last. places: where in its window each row begins; default: in front."""
        log_mel = log_mel.to(self.positions.dtype)[:, :, None]
        # On a CPU one by one: in a batch, each would be summed in another order.
        step = 1 if log_mel.device.type == "cpu" else len(log_mel)
        firsts = range(0, len(log_mel), step)
        x = torch.cat([self._read(log_mel[i : i + step]) for i in firsts])
        # Laid out by position once (on a GPU it is), or every layer would do it again.
        x = x.squeeze(2)[..., first:last].transpose(1, 2).contiguous()
        count = x.shape[1]
        if not places:
            return x.add_(self.positions[:count])
        for row, place in zip(x, places, strict=True):
            row.add_(self.positions[place : place + count])
        return x

    def _read(self, log_mel: Tensor) -> Tensor:
        """[batch, mels, 1, frames] to [batch, width, 1, positions]."""
        x = gelu_(F.conv2d(log_mel, *self.conv1, padding=(0, 1)))
        return gelu_(F.conv2d(x, *self.conv2, stride=(1, 2), padding=(0, 1)))

    def transform(
        self,
        x: Tensor,
        silence: EncodedSilence | None = None,
        kept: KeysValues | None = None,
        settled: Sequence[SettledAudio] = (),
    ) -> Tensor:
        """x: [batch, positions, width], overwritten. The others: see `WhisperModel.encode`."""
        nexts = [*(layer.attention.norm for layer in self.layers[1:]), self.norm]
        normed = self.layers[0].attention.norm(x)
        for index, (layer, next_norm) in enumerate(zip(self.layers, nexts, strict=True)):
            q, k, v = split_heads(layer.attention, normed, self.heads)
            if kept is not None:
                kept.append((k.contiguous(), v.contiguous()))
            if silence is None:
                y = attention(q, k, v, scale=1.0)
            elif settled:  # of different lengths: one by one
                rows = zip(q, k, v, settled, strict=True)
                y = torch.cat([silence.attention(index, *_behind(index, *row)) for row in rows])
            else:
                y = silence.attention(index, q, k, v)
            y = linear(y.flatten(2), layer.attention.out)
            normed = layer.ffn.norm.add_(y, x)
            normed = next_norm.add_(layer.ffn(normed), x)
        return normed


def _behind(
    layer: int, q: Tensor, k: Tensor, v: Tensor, settled: SettledAudio
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of one window, [positions, heads, dim], its keys and values behind the settled."""
    keys, values = (x.to(k.dtype) for x in settled.keys_values[layer])
    return q[None], torch.cat([keys, k[None]], dim=1), torch.cat([values, v[None]], dim=1)


def split_heads(
    weights: SelfAttention, normed: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of every token: each [batch, tokens, heads, dim]."""
    qkv = linear(normed, weights.qkv)
    q, k, v = qkv.view(*qkv.shape[:2], 3, heads, -1).unbind(2)
    return q, k, v

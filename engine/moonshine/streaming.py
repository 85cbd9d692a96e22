"""Moonshine's streaming form (Useful Sensors, 2026): its encoder looks a little ahead and not far
back, and knows no places, so what was encoded of a segment stays as it is while the segment grows.

    |---- settled: kept ----|- ahead -|         after some samples
                    |- back |- more ----------- what is encoded when there are more

The decoder adds places to the whole segment, and attends to all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    Loading,
    read_json,
    section,
    whole_number,
)
from lookhear.engine.models.layers import EncoderLayer, FeedForward, Norm, SelfAttention
from lookhear.engine.moonshine.decoder import MoonshineDecoder
from lookhear.engine.moonshine.weights import (
    DecoderWeights,
    MoonshineDims,
    MoonshineSource,
    read_decoder,
    tied_copy,
)
from lookhear.kernels import linear

FRAME = 80  # samples, 5 ms
KERNEL, STRIDE = 5, 2  # of the two convolutions over frames, which see what was before
HOP = FRAME * STRIDE**2  # samples from one position to the next
STEM_REACH = 3  # positions before one that its convolutions read, rounded up
EPS = 1e-6
SHORTEST = 1600  # samples: a tenth of a second has no word


@dataclass(frozen=True, slots=True)
class StreamingDims:
    """Of the encoder. windows: of each layer, positions seen up to one's own, and that many, less
    one, behind it."""

    width: int
    ffn: int
    heads: int
    windows: tuple[tuple[int, int], ...]
    bias: bool

    @property
    def back(self) -> int:
        """Positions before one that it depends on."""
        return STEM_REACH + sum(max(0, left - 1) for left, _ in self.windows)

    @property
    def ahead(self) -> int:
        """Positions behind one that it depends on."""
        return sum(max(0, right - 1) for _, right in self.windows)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> StreamingDims:
        """Of a parsed encoder_config; `source` is named in errors."""

        def number(key: str) -> int:
            return whole_number(config, source, key)

        width, heads = number("hidden_size"), number("num_attention_heads")
        expected = {
            "hidden_act": "gelu",
            "num_key_value_heads": heads,
            "head_dim": width // heads,
            "sample_rate": 16_000,
            "frame_ms": 5.0,
        }
        for key, value in expected.items():
            if (config.get(key) or value) != value:
                raise CheckpointError.of(source, f"encoder_config.{key}", repr(value), config[key])
        windows = config.get("sliding_windows")
        layers = number("num_hidden_layers")
        is_plain = isinstance(windows, list) and len(windows) == layers and all(
            isinstance(pair, list) and len(pair) == 2 and pair[0] >= 1 and pair[1] >= 0
            for pair in windows
        )  # fmt: skip
        if not is_plain:
            of_each = f"two numbers for each of {layers} layers"
            raise CheckpointError.of(source, "encoder_config.sliding_windows", of_each, windows)
        return cls(
            width=width,
            ffn=number("intermediate_size"),
            heads=heads,
            windows=tuple((int(left), int(right)) for left, right in windows or ()),
            bias=bool(config.get("attention_bias", False)),
        )


@dataclass(frozen=True, slots=True)
class StreamingWeights:
    """The encoder's. compression: by which frames are multiplied. frames: [width, FRAME]; convs:
    (weight, bias); all of the stem in float32. places: [positions, width]. turn: to the decoder's
    width, None where it is the same."""

    compression: float
    frames: Tensor
    convs: list[tuple[Tensor, Tensor]]
    layers: list[EncoderLayer]
    norm: Norm
    places: Tensor
    turn: Tensor | None


class StreamingMoonshineModel(MoonshineDecoder):
    """All weights of one checkpoint."""

    def __init__(
        self,
        dims: MoonshineDims,
        encoder_dims: StreamingDims,
        encoder: StreamingWeights,
        decoder: DecoderWeights,
    ) -> None:
        super().__init__(dims, decoder)
        self.encoder_dims = encoder_dims
        self._encoder = encoder

    @classmethod
    def from_folder(
        cls, folder: Path, *, half: bool = False, **loading: Unpack[Loading]
    ) -> StreamingMoonshineModel:
        """As `MoonshineModel.from_folder`."""
        path = folder / "config.json"
        config = read_json(path)
        rope = config.get("rope_parameters") or config.get("rope_scaling")
        dims = MoonshineDims.from_config(config, path, turned=1.0 if rope else 0.8, tied=False)
        own = StreamingDims.from_config(section(config, "encoder_config", path), path)
        reader = CheckpointReader(folder, **loading)
        with torch.inference_mode():
            source = _Source(reader, dims, own)
            encoder = source.encoder()
            decoder = read_decoder(MoonshineSource(reader, dims, half=half), source.num_parameters)
        reader.finish(ignore=tied_copy(dims))
        return cls(dims, own, encoder, decoder)

    @property
    def reach(self) -> int:
        """Samples of what was heard before that are encoded again when there are more."""
        return (self.encoder_dims.back + self.encoder_dims.ahead) * HOP

    def num_positions(self, num_samples: int) -> int:
        """Whole frames are heard."""
        return -(-(max(num_samples, SHORTEST) // FRAME) // STRIDE**2)

    @torch.inference_mode()
    def encode(self, samples: Tensor) -> Tensor:
        """See `MoonshineDecoder`."""
        return self.encode_more(samples, None)[0]

    @torch.inference_mode()
    def encode_more(self, samples: Tensor, settled: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """See `MoonshineDecoder`. settled: rows of the encoder, [positions, its width]."""
        if len(samples) < SHORTEST:
            samples, settled = F.pad(samples, (0, SHORTEST - len(samples))), None
            return self._placed(self._listen(samples)), None
        final = max(0, self.num_positions(len(samples)) - self.encoder_dims.ahead)
        # Of fewer samples than before, where a segment was cut, less is settled.
        known = 0 if settled is None else min(len(settled), final)
        first = max(0, known - self.encoder_dims.back)
        rows = self._listen(samples[first * HOP :])
        if settled is not None:
            rows = torch.cat([settled[:known], rows[known - first :]])
        return self._placed(rows), rows[:final] if final > 0 else None

    def _listen(self, samples: Tensor) -> Tensor:
        """[n] samples, the beginning of a position first. Returns [positions, encoder's width]."""
        weights, dims = self._encoder, self.encoder_dims
        frames = samples[: len(samples) // FRAME * FRAME].view(-1, FRAME).float()
        frames = frames - frames.mean(dim=1, keepdim=True)
        frames = frames / (frames.square().mean(dim=1, keepdim=True) + EPS).sqrt()
        x = F.silu(F.linear(torch.asinh(weights.compression * frames), weights.frames)).t()[None]
        for index, (weight, bias) in enumerate(weights.convs):
            x = F.conv1d(F.pad(x, (KERNEL - 1, 0)), weight, bias, stride=STRIDE)
            if index == 0:
                x = F.silu(x)
        x = x[0].t().to(self.dtype).contiguous()
        behind = torch.arange(len(x), device=self.device)
        distance = behind[:, None] - behind
        seen: dict[tuple[int, int], Tensor] = {}
        layers = weights.layers
        nexts = [*(layer.attention.norm for layer in layers[1:]), weights.norm]
        normed = layers[0].attention.norm(x)
        for layer, next_norm, window in zip(layers, nexts, dims.windows, strict=True):
            if window not in seen:
                seen[window] = (distance < window[0]) & (-distance < max(1, window[1]))
            qkv = linear(normed, layer.attention.qkv)
            q, k, v = qkv.view(len(x), 3, dims.heads, -1).permute(1, 2, 0, 3).unbind(0)
            y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen[window])
            out = linear(y[0].transpose(0, 1).flatten(1), layer.attention.out)
            normed = layer.ffn.norm.add_(out, x)
            normed = next_norm.add_(layer.ffn(normed), x)
        return normed

    def _placed(self, rows: Tensor) -> Tensor:
        """As the decoder attends to them: [positions, width]."""
        rows = rows + self._encoder.places[: len(rows)]
        return rows if self._encoder.turn is None else F.linear(rows, self._encoder.turn)


class _Source(MoonshineSource):
    """The encoder's tensors, and what the decoder makes of its rows."""

    def __init__(self, reader: CheckpointReader, dims: MoonshineDims, own: StreamingDims) -> None:
        super().__init__(reader, dims)
        self._own = own

    def encoder(self) -> StreamingWeights:
        """All of them."""
        own, name = self._own, "model.encoder"
        width, stem = own.width, f"{name}.embedder"
        convs = [
            (
                self.take(f"{stem}.conv{index}.weight", out, inside, KERNEL).float(),
                self.take(f"{stem}.conv{index}.bias", out).float(),
            )
            for index, inside, out in ((1, width, 2 * width), (2, 2 * width, width))
        ]
        turn = None
        if width != self.dims.width:
            turn = self.take("model.decoder.proj.weight", self.dims.width, width)
        return StreamingWeights(
            compression=float(self.take(f"{stem}.comp.log_k").float().exp()),
            frames=self.take(f"{stem}.linear.weight", width, FRAME).float(),
            convs=convs,
            layers=[self._layer(f"{name}.layers.{i}") for i in range(len(own.windows))],
            norm=self._offset_norm(f"{name}.final_norm"),
            places=self.take("model.decoder.pos_emb.weight", self.dims.context, width),
            turn=turn,
        )

    def _offset_norm(self, name: str) -> Norm:
        """Stored as what it is more than one."""
        weight = self.take(f"{name}.gamma", self._own.width) + 1.0
        return Norm(weight, torch.zeros_like(weight))

    def _layer(self, name: str) -> EncoderLayer:
        own, attention, mlp = self._own, f"{name}.self_attn", f"{name}.mlp"
        up = self._linear(f"{mlp}.fc1", own.ffn, own.width, bias=True)
        down = self._linear(f"{mlp}.fc2", own.width, own.ffn, bias=True)
        square = (own.width, own.width)
        qkv = (self._linear(f"{attention}.{p}_proj", *square, bias=own.bias) for p in "qkv")
        return EncoderLayer(
            SelfAttention(
                norm=self._offset_norm(f"{name}.input_layernorm"),
                qkv=self.packed(*qkv),
                out=self.packed(self._linear(f"{attention}.o_proj", *square, bias=own.bias)),
            ),
            FeedForward(
                self._offset_norm(f"{name}.post_attention_layernorm"),
                self.packed(up),
                self.packed(down),
            ),
        )

    def _linear(
        self, name: str, out: int, inside: int, *, bias: bool
    ) -> tuple[Tensor, Tensor | None]:
        weight = self.take(f"{name}.weight", out, inside)
        return weight, self.take(f"{name}.bias", out) if bias else None

"""Qwen3-ASR's audio encoder: a convolution stack per second, attention inside windows.

    log-mel frames (10 ms)   |--- chunk, 1 s ---|--- chunk ---| ... |- short last chunk -|
    convolutions, 8 to 1     |  13 tokens       |  13 tokens  | ... |  fewer             |
    attention                |------------- window, 8 chunks -------------|---- ...

Chunks do not see each other in the convolutions, and positions restart in each. Windows do not see
each other in the attention. So a window's tokens are a function of its own frames: a full (closed)
window is final however the audio goes on, and windows of many sessions make one batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, whole_number
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    SelfAttention,
    WeightSource,
)
from lookhear.kernels import (
    LinearWeights,
    gelu_,
    linear,
    pack_conv,
    pack_linear,
    windowed_attention,
)

CONV_CHUNKS = 16  # at once through the convolutions, whose inside is 60 times the chunk
PAD_MULTIPLE = 16  # tokens of a batch of windows are padded to
MAX_TIMESCALE = 10_000


@dataclass(frozen=True, slots=True)
class AudioDims:
    """The numbers of audio_config that fix every shape. Frames are of log-mel, 10 ms each."""

    num_mels: int
    width: int
    layers: int
    heads: int
    ffn: int
    channels: int  # of the convolutions
    out_width: int  # of the text decoder
    chunk_frames: int
    window_frames: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> AudioDims:
        """Reads the parsed audio_config; `source` is named in errors."""

        def number(key: str, *aliases: str) -> int:
            return whole_number(config, source, key, *aliases)

        if config.get("activation_function", "gelu") != "gelu":
            got = config["activation_function"]
            raise CheckpointError.of(source, "activation_function", "'gelu'", got)
        dims = cls(
            num_mels=number("num_mel_bins"),
            width=number("d_model", "hidden_size"),
            layers=number("encoder_layers", "num_hidden_layers"),
            heads=number("encoder_attention_heads", "num_attention_heads"),
            ffn=number("encoder_ffn_dim", "intermediate_size"),
            channels=number("downsample_hidden_size"),
            out_width=number("output_dim"),
            chunk_frames=2 * number("n_window"),
            window_frames=number("n_window_infer"),
        )
        if dims.width % dims.heads or dims.width % 2:
            divisor = f"a divisor of an even d_model ({dims.width})"
            raise CheckpointError.of(source, "encoder_attention_heads", divisor, dims.heads)
        if dims.window_frames % dims.chunk_frames:
            multiple = f"a multiple of 2 * n_window ({dims.chunk_frames})"
            raise CheckpointError.of(source, "n_window_infer", multiple, dims.window_frames)
        return dims

    def num_tokens(self, num_frames: int) -> int:
        """Encoder tokens of so many frames from the start of a window (or of the audio)."""
        full, rest = divmod(num_frames, self.chunk_frames)
        return full * _halved(self.chunk_frames) + _halved(rest)


@cache
def _halved(size: int) -> int:
    """What three convolutions of stride 2 leave of it."""
    for _ in range(3):
        size = (size + 1) // 2
    return size


@dataclass(frozen=True, slots=True)
class AudioWeights:
    """convs: three of [channels, 1 or channels, 3, 3] and [channels]. conv_out: [width, channels *
    mels / 8]. up, down: the projection into the decoder's embeddings."""

    convs: tuple[tuple[Tensor, Tensor], ...]
    conv_out: LinearWeights
    positions: Tensor  # [tokens of a chunk, width]
    layers: list[EncoderLayer]
    norm: Norm
    up: LinearWeights
    down: LinearWeights


def read_audio_weights(
    source: WeightSource, dims: AudioDims, *, tower: str, up: str, down: str
) -> AudioWeights:
    """Takes the encoder's tensors; tower, up, down: names of its parts in the checkpoint."""
    convs = []
    for index, inside in enumerate((1, dims.channels, dims.channels), start=1):
        name = f"{tower}.conv2d{index}"
        weight = source.take(f"{name}.weight", dims.channels, inside, 3, 3)
        convs.append((pack_conv(weight), source.take(f"{name}.bias", dims.channels)))
    flat = dims.channels * _halved(dims.num_mels)
    parent, up = up.rsplit(".", 1)
    down = down.rsplit(".", 1)[1]
    weight = convs[0][0]
    return AudioWeights(
        convs=tuple(convs),
        conv_out=source.linear(tower, {"conv_out": dims.width}, flat),
        positions=_sinusoids(_halved(dims.chunk_frames), dims.width).to(weight),
        layers=[_layer(source, dims, f"{tower}.layers.{i}") for i in range(dims.layers)],
        norm=Norm.read(source, f"{tower}.ln_post", dims.width),
        up=source.linear(parent, {up: dims.width}, dims.width, bias=True),
        down=source.linear(parent, {down: dims.out_width}, dims.width, bias=True),
    )


class AudioEncoder:
    """From log-mel windows to embeddings that stand for audio placeholders. No state."""

    def __init__(self, dims: AudioDims, weights: AudioWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.positions.dtype

    def split(self, log_mel: Tensor) -> list[Tensor]:
        """Cuts audio into its windows: [mels, frames] -> views [mels, frames of the window]."""
        return list(torch.split(log_mel, self.dims.window_frames, dim=1))

    @torch.inference_mode()
    def encode_windows(self, windows: Sequence[Tensor]) -> list[Tensor]:
        """Encodes windows, each of itself alone; of one audio or of many.

        windows: each [mels, frames], 1 to window_frames of them; no padding.
        Returns for each [dims.num_tokens(frames), out_width], in the order of its audio.
        """
        if not windows:
            return []
        dims = self.dims
        for window in windows:
            assert window.shape[0] == dims.num_mels, (window.shape, dims.num_mels)
            assert 1 <= window.shape[1] <= dims.window_frames, (window.shape, dims.window_frames)
        counts = [dims.num_tokens(window.shape[1]) for window in windows]
        ends = list(accumulate(counts, initial=0))
        x = self._convolve(windows)
        limits = to_device(ends, torch.int64, x.device)
        # Libraries prepare (and keep) code per shape, and an open window has any length.
        x = self.transform(F.pad(x, (0, 0, 0, -len(x) % PAD_MULTIPLE)), limits)
        return [x[a:b] for a, b in pairwise(ends)]

    def transform(self, x: Tensor, limits: Tensor) -> Tensor:
        """The layers and the projection. x: [tokens, width], contiguous and written to, those of
        window w from limits[w] to limits[w + 1], padding behind the last. limits: [windows + 1]
        int64. Returns [tokens, out_width]. Nothing is read back: it can be captured."""
        dims, weights = self.dims, self.weights
        nexts = [*(layer.attention.norm for layer in weights.layers[1:]), weights.norm]
        normed = weights.layers[0].attention.norm(x)
        for layer, next_norm in zip(weights.layers, nexts, strict=True):
            qkv = linear(normed, layer.attention.qkv)
            q, k, v = qkv.view(len(x), 3, dims.heads, -1).unbind(1)
            y = windowed_attention(q, k, v, limits, scale=1.0)
            y = linear(y.flatten(1), layer.attention.out)
            normed = layer.ffn.norm.add_(y, x)
            normed = next_norm.add_(layer.ffn(normed), x)
        return linear(linear(normed, weights.up, "gelu"), weights.down)

    def encode(self, log_mel: Tensor) -> Tensor:
        """Encodes a whole audio: [mels, frames] -> [dims.num_tokens(frames), out_width]."""
        return torch.cat(self.encode_windows(self.split(log_mel)))

    def _convolve(self, windows: Sequence[Tensor]) -> Tensor:
        """Chunks of all windows through the stack: [tokens, width], no padding among them.

        The last chunk of a window is filled up with zeros, like the feature extractor does.
        """
        dims, weights = self.dims, self.weights
        chunks: list[Tensor] = []
        counts: list[int] = []
        for window in windows:
            frames = window.shape[1]
            num = -(-frames // dims.chunk_frames)
            filled = F.pad(window.to(weights.positions), (0, num * dims.chunk_frames - frames))
            chunks.append(filled.view(dims.num_mels, num, dims.chunk_frames).transpose(0, 1))
            rest = frames - (num - 1) * dims.chunk_frames
            counts += [_halved(dims.chunk_frames)] * (num - 1) + [_halved(rest)]
        tokens = self.convolve(torch.cat(chunks))
        size = tokens.shape[1]
        # By places, not by a mask: a device would have to tell how many tokens are left.
        places = np.concatenate([np.arange(n) + i * size for i, n in enumerate(counts)])
        return tokens.flatten(0, 1)[to_device(places, torch.int64, tokens.device)]

    def convolve(self, chunks: Tensor) -> Tensor:
        """chunks: [n, mels, chunk_frames], zeros behind the last frame of audio. Returns [n, tokens
        of a whole chunk, width]; those of a short one come first."""
        parts = []
        for first in range(0, len(chunks), CONV_CHUNKS):
            x = chunks[first : first + CONV_CHUNKS, None]
            for weight, bias in self.weights.convs:
                x = gelu_(F.conv2d(x, weight, bias, stride=2, padding=1))
            x = x.permute(0, 3, 1, 2).flatten(2)  # [chunks, tokens, channels * bins]
            parts.append(linear(x, self.weights.conv_out) + self.weights.positions)
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _sinusoids(length: int, width: int) -> Tensor:
    """Fixed positions: sines in the first half of the width, cosines in the second."""
    pairs = width // 2
    scales = torch.exp(-math.log(MAX_TIMESCALE) / (pairs - 1) * torch.arange(pairs))
    angles = torch.arange(length)[:, None] * scales[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _layer(source: WeightSource, dims: AudioDims, layer: str) -> EncoderLayer:
    """One layer; its queries are scaled by head_dim ** -0.5 here, once."""
    width, name = dims.width, f"{layer}.self_attn"
    scale = (width // dims.heads) ** -0.5
    weights, biases = [], []
    for part, factor in (("q_proj", scale), ("k_proj", 1.0), ("v_proj", 1.0)):
        weights.append(source.take(f"{name}.{part}.weight", width, width) * factor)
        biases.append(source.take(f"{name}.{part}.bias", width) * factor)
    qkv = pack_linear(torch.cat(weights), torch.cat(biases), pack=True)
    parts = dict.fromkeys(("q_proj", "k_proj", "v_proj"), width)
    return EncoderLayer(
        SelfAttention(
            norm=Norm.read(source, f"{layer}.self_attn_layer_norm", width),
            qkv=source.placed(name, parts, qkv, {"q_proj": scale}),
            out=source.linear(name, {"out_proj": width}, width, bias=True),
        ),
        FeedForward(
            norm=Norm.read(source, f"{layer}.final_layer_norm", width),
            up=source.linear(layer, {"fc1": dims.ffn}, width, bias=True),
            down=source.linear(layer, {"fc2": width}, dims.ffn, bias=True),
        ),
    )

"""Moonshine (Jeffries et al., 2024): an encoder over raw samples, as long as the audio is."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointReader,
    Loading,
    read_json,
    whole_number,
)
from lookhear.engine.moonshine.decoder import MoonshineDecoder
from lookhear.engine.moonshine.weights import (
    STEM,
    DecoderWeights,
    EncoderWeights,
    MoonshineDims,
    MoonshineSource,
    read_decoder,
    read_encoder,
    tied_copy,
)
from lookhear.kernels import attention, linear

SHORTEST = 1600  # samples: fewer have no position, and a tenth of a second no word


class MoonshineModel(MoonshineDecoder):
    """All weights of one checkpoint."""

    def __init__(
        self, dims: MoonshineDims, encoder: EncoderWeights, decoder: DecoderWeights
    ) -> None:
        super().__init__(dims, decoder)
        self._encoder = encoder

    @classmethod
    def from_folder(
        cls, folder: Path, *, half: bool = False, **loading: Unpack[Loading]
    ) -> MoonshineModel:
        """Loads a Hugging Face folder (config.json, safetensors); raises `CheckpointError`. half:
        the decoder's matrices are in float16, on a CPU; see `kernels.linear`."""
        path = folder / "config.json"
        config = read_json(path)
        dims = MoonshineDims.from_config(config, path)
        layers = whole_number(config, path, "encoder_num_hidden_layers")
        reader = CheckpointReader(folder, **loading)
        with torch.inference_mode():
            source = MoonshineSource(reader, dims)
            encoder = read_encoder(source, layers)
            decoder = read_decoder(MoonshineSource(reader, dims, half=half), source.num_parameters)
        reader.finish(ignore=tied_copy(dims))
        return cls(dims, encoder, decoder)

    def num_positions(self, num_samples: int) -> int:
        """See `MoonshineDecoder`."""
        length = max(num_samples, SHORTEST)
        for kernel, stride in STEM:
            length = (length - kernel) // stride + 1
        return length

    @torch.inference_mode()
    def encode(self, samples: Tensor) -> Tensor:
        """samples: [n] float32 at 16 kHz on the model's device, one recording: its loudness is
        measured over all of it, so nothing stands beside it. Returns [positions, width]."""
        weights = self._encoder
        if len(samples) < SHORTEST:
            samples = F.pad(samples, (0, SHORTEST - len(samples)))
        x = samples[None, None]
        for index, (weight, bias) in enumerate(weights.convs):
            x = F.conv1d(x, weight, bias, stride=STEM[index][1])
            if index:
                x = F.gelu(x)
            else:
                norm = weights.group_norm
                x = F.group_norm(x.tanh_(), 1, norm.weight, norm.bias, norm.eps)
        x = x[0].t().to(self.dtype).contiguous()
        angles = self._angles(torch.arange(len(x), device=self.device))
        layers = weights.layers
        nexts = [*(layer.attention.norm for layer in layers[1:]), weights.norm]
        normed = layers[0].attention.norm(x)
        for layer, next_norm in zip(layers, nexts, strict=True):
            q, k, v = self._heads(linear(normed, layer.attention.qkv), *angles)
            y = attention(q[None], k[None], v[None])[0]
            normed = layer.ffn.norm.add_(linear(y.flatten(1), layer.attention.out), x)
            normed = next_norm.add_(layer.ffn(normed), x)
        return normed

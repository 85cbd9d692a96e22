"""Voxtral Realtime (Mistral AI, 2026): writes a token with every 80 ms that it hears.

    log-mel frames -> causal encoder -> steps of 80 ms
    what it wrote last + the step's embedding -> decoder -> what it writes with this step

Most of what it writes says that nothing is to be said; a word comes a *delay* after it was spoken,
which the decoder is told. Nothing is heard twice: `engine.voxtral.encoder` and `stack`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader, Loading, read_json
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.voxtral.dims import VoxtralDims
from lookhear.engine.voxtral.encoder import Encoder
from lookhear.engine.voxtral.stack import Delays, Stack
from lookhear.engine.voxtral.weights import DecoderWeights, VoxtralSource
from lookhear.kernels import linear


@dataclass(eq=False, slots=True)
class Decoder:
    """One pass is over new tokens of several recordings, each of its own delay."""

    dims: VoxtralDims
    weights: DecoderWeights
    stack: Stack
    _scales: dict[int, Tensor] = field(default_factory=dict)  # by the delay

    @torch.inference_mode()
    def forward(
        self, tokens: Tensor, steps: Tensor, delays: Delays, batch: PagedBatch, cache: PagedCache
    ) -> Tensor:
        """tokens: [n] int64. steps: [n, width], of the encoder. Returns [n, width]."""
        x = self.weights.tokens[tokens] + steps
        return self.stack.forward(x, batch, cache, delays)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width]. Returns [n, vocab] float32."""
        head = self.weights.head
        return linear(hidden if head.half is None else hidden.float(), head).float()

    def scales(self, delay: int) -> Tensor:
        """See `Stack.scales`; remembered."""
        if delay not in self._scales:
            self._scales[delay] = self.stack.scales(delay)
        return self._scales[delay]


@dataclass(frozen=True, slots=True, eq=False)
class VoxtralModel:
    """Both parts are in the checkpoint's precision."""

    dims: VoxtralDims
    encoder: Encoder
    decoder: Decoder
    num_parameters: int

    @classmethod
    def from_folder(
        cls, folder: Path, *, half: bool = False, **loading: Unpack[Loading]
    ) -> VoxtralModel:
        """Loads a Hugging Face folder; raises `CheckpointError`. half: keep large weights in
        float16, where the machine can (`pack_linear`)."""
        path = folder / "config.json"
        dims = VoxtralDims.from_config(read_json(path), path)
        reader = CheckpointReader(folder, **loading)
        source = VoxtralSource(reader, dims, half=half)
        with torch.inference_mode():
            encoder = Encoder(dims, source.encoder())
            weights = source.decoder()
        reader.finish(ignore=(f"{source.head}.weight",) if dims.tied_head else ())
        decoder = Decoder(dims, weights, Stack(dims.text, weights.stack))
        return cls(dims, encoder, decoder, source.num_parameters)

    @property
    def dtype(self) -> torch.dtype:
        """Of all of it."""
        return self.decoder.stack.dtype

    @property
    def device(self) -> torch.device:
        """Of everything."""
        return self.decoder.stack.device

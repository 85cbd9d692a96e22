"""A streaming transducer (NVIDIA's Nemotron ASR, 2026): text while somebody speaks, by itself.

    log-mel frames -> encoder, chunk by chunk -> places of 80 ms -> tokens of each, or none

Nothing is heard twice, and what it wrote stands: see `engine.transducer.encoder` and `predictor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader, Loading, read_json
from lookhear.engine.device.staging import to_device
from lookhear.engine.transducer.dims import TransducerDims
from lookhear.engine.transducer.encoder import Encoder, EncoderState, Piece
from lookhear.engine.transducer.predictor import Predictor
from lookhear.engine.transducer.weights import TransducerSource
from lookhear.kernels import linear


@dataclass(frozen=True, slots=True, eq=False)
class TransducerModel:
    """encoder: in the checkpoint's precision; predictor: always in float32."""

    dims: TransducerDims
    encoder: Encoder
    predictor: Predictor
    num_parameters: int

    @classmethod
    def from_folder(
        cls, folder: Path, *, half: bool = False, **loading: Unpack[Loading]
    ) -> TransducerModel:
        """Loads a Hugging Face folder; raises `CheckpointError`. half: keep the encoder's large
        weights in float16, where the machine can (`pack_linear`)."""
        path = folder / "config.json"
        dims = TransducerDims.from_config(read_json(path), path)
        reader = CheckpointReader(folder, **loading)
        source = TransducerSource(reader, dims, half=half)
        with torch.inference_mode():
            encoder = Encoder(dims.encoder, source.encoder())
            predictor = Predictor(dims, source.predictor())
        reader.finish()
        return cls(dims, encoder, predictor, source.num_parameters)

    @property
    def dtype(self) -> torch.dtype:
        """Of the encoder."""
        return self.encoder.dtype

    @property
    def device(self) -> torch.device:
        """Of everything."""
        return self.encoder.device

    @torch.inference_mode()
    def encode(
        self, pieces: Sequence[Piece], chunk: int, prompts: Sequence[int] | None = None
    ) -> tuple[list[Tensor], list[EncoderState]]:
        """As `Encoder.encode`; places are what the predictor takes, float32. prompts: in which
        language each is to be heard, where the model can be told."""
        heard, left = self.encoder.encode(pieces, chunk)
        counts, x = [len(own) for own in heard], torch.cat(heard)
        if (projector := self.encoder.weights.prompt) is not None:
            told = [self.dims.prompt] * len(pieces) if prompts is None else list(prompts)
            of_each = [n for n, count in zip(told, counts, strict=True) for _ in range(count)]
            numbers = to_device(of_each, torch.int64, x.device)[:, None]
            chosen = x.new_zeros(len(x), self.dims.prompts).scatter_(1, numbers, 1.0)
            x = torch.cat([x, chosen], 1)
            x = linear(linear(x, projector[0]).relu(), projector[1])
        places = linear(x, self.encoder.weights.out).float()
        return list(torch.split(places, counts)), left

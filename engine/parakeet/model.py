"""Parakeet (NVIDIA, 2024 on): a conformer that hears a recording as a whole, and what writes of it:
a transducer, plain (RNNT) or with durations (TDT), or a product alone (CTC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader, Loading, read_json
from lookhear.engine.parakeet.dims import ParakeetDims
from lookhear.engine.parakeet.encoder import Encoder
from lookhear.engine.parakeet.weights import ParakeetSource
from lookhear.engine.parakeet.writing import CtcWriter, DurationWriter
from lookhear.engine.transducer.dims import TransducerDims
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.predictor import Predictor
from lookhear.kernels import linear


@dataclass(frozen=True, slots=True, eq=False)
class ParakeetModel:
    """encoder: in the checkpoint's precision; predictor, what writes: always in float32."""

    dims: ParakeetDims
    encoder: Encoder
    predictor: CtcWriter | DurationWriter | Predictor
    num_parameters: int

    @classmethod
    def from_folder(
        cls, folder: Path, *, half: bool = False, **loading: Unpack[Loading]
    ) -> ParakeetModel:
        """See `TransducerModel.from_folder`."""
        path = folder / "config.json"
        dims = ParakeetDims.from_config(read_json(path), path)
        reader = CheckpointReader(folder, **loading)
        source = ParakeetSource(reader, dims, half=half)
        writer: CtcWriter | DurationWriter | Predictor = CtcWriter(dims)
        with torch.inference_mode():
            encoder = Encoder(dims, source.encoder())
            if dims.layers:
                weights = source.predictor(len(dims.durations))
                writer = Predictor(cast(TransducerDims, dims), weights)
                if dims.durations:
                    writer = DurationWriter(dims, writer)
        counters = (
            f"encoder.layers.{i}.conv.norm.num_batches_tracked" for i in range(dims.encoder.layers)
        )
        reader.finish(ignore=counters)
        return cls(dims, encoder, writer, source.num_parameters)

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
    ) -> tuple[list[Tensor], list[Any]]:
        """As `TransducerModel.encode`, but that each piece is a whole recording."""
        out = self.encoder.weights.out
        places = [linear(self.encoder.encode(piece.frames), out).float() for piece in pieces]
        return places, [None] * len(pieces)

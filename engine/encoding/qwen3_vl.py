"""Qwen3-VL in two: its vision encoder in one process, its decoder in others that see nothing
themselves. Each loads its own part of the checkpoint, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.checkpoints.end_tokens import end_tokens
from lookhear.engine.checkpoints.loader import CheckpointReader, Loading, read_json
from lookhear.engine.models.layers import Placement, WeightSource
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_vl import BODY, HEAD, TOWER, VLShape, encoded, picture_medium
from lookhear.engine.models.qwen3_weights import read_weights, tied_copy
from lookhear.engine.models.vision_encoder import VisionEncoder
from lookhear.engine.models.vision_weights import VisionDims, read_vision_weights
from lookhear.engine.paged.request import Medium

# What the names of weights begin with that an engine of a role does not load.
APART = {"encoder": (f"{BODY}.", f"{HEAD}."), "language": (f"{TOWER}.",)}


@dataclass(eq=False)
class Qwen3VLTower:
    """encoder: pixels to rows. tower: its linears, see `WeightSource`."""

    encoder: VisionEncoder
    num_parameters: int
    tower: Mapping[str, Placement]

    @classmethod
    def from_folder(cls, folder: Path, **loading: Unpack[Loading]) -> Qwen3VLTower:
        """Loads the encoder of a Hugging Face folder; raises `CheckpointError`."""
        path = folder / "config.json"
        dims = VLShape.from_config(read_json(path), path).encoder
        reader = CheckpointReader(folder, **loading)
        source = WeightSource(reader)
        with torch.inference_mode():
            weights = read_vision_weights(source, dims, TOWER)
        reader.finish(parts=APART["encoder"])
        return cls(VisionEncoder(dims, weights), source.num_parameters, source.modules)

    @torch.inference_mode()
    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """See `Qwen3VLModel.encode`."""
        return encoded(self.encoder, media)


@dataclass(eq=False)
class Qwen3VLLanguage:
    """decoder: see `Qwen3Model`. vision: of the encoder that somebody else has. end_tokens: ids
    that end an answer."""

    decoder: Qwen3Model
    vision: VisionDims
    end_tokens: tuple[int, ...]
    num_parameters: int

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        half: bool = False,
        linears: torch.dtype | None = None,
        kept: Sequence[int] = (),
        **loading: Unpack[Loading],
    ) -> Qwen3VLLanguage:
        """Loads all but the encoder; see `Qwen3VLModel.from_folder`."""
        path = folder / "config.json"
        config = read_json(path)
        shape = VLShape.from_config(config, path)
        reader = CheckpointReader(folder, **loading)
        with torch.inference_mode():
            writes = shape.decoder.tied_head or f"{HEAD}.weight" in reader
            weights = read_weights(
                reader,
                shape.decoder,
                body=BODY,
                head=HEAD if writes else None,
                half_head=True,
                half=half,
                linears=linears,
                kept=kept,
            )
        reader.finish(ignore=tied_copy(shape.decoder), parts=APART["language"])
        return cls(
            Qwen3Model(shape.decoder, weights, writes=writes),
            shape.encoder,
            end_tokens(folder, config, config["text_config"]),
            weights.num_parameters,
        )

    def medium(self, pixels: NDArray[np.float32]) -> Medium:
        """See `Qwen3VLModel.medium`."""
        return picture_medium(self.vision, pixels)

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Nothing is shown to it but embeddings: prompts wait for those."""
        raise AssertionError(f"an engine without an encoder was given {len(media)} media")

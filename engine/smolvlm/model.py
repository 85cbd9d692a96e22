"""SmolVLM and Idefics3 (Hugging Face, 2024, 2025): a SigLIP encoder before a Llama.

A picture is seen as crops of one size and, last, as a whole of that size: each is a medium of its
own. The network is one; its two names differ in how pictures were prepared for training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from lookhear.engine.checkpoints.end_tokens import end_tokens
from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    Loading,
    read_json,
    section,
    whole_number,
)
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.layers import WeightSource
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_vl import placeholder
from lookhear.engine.models.qwen3_weights import Qwen3Dims, read_weights, tied_copy
from lookhear.engine.paged.request import Medium
from lookhear.engine.smolvlm.encoder import CropDims, CropEncoder, read_crop_weights

BODY, TOWER, OUT = "model.text_model", "model.vision_model", "model.connector.modality_projection"


@dataclass(eq=False)
class SmolVlmModel:
    """encoder: crops to rows. decoder: everything else: a Llama, which is a Qwen3 without norms of
    queries and keys. image_token: the placeholder's id. end_tokens: ids that end an answer."""

    encoder: CropEncoder
    decoder: Qwen3Model
    image_token: int
    end_tokens: tuple[int, ...]
    num_parameters: int

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        encoder_dtype: torch.dtype | None = None,
        half: bool = False,
        **loading: Unpack[Loading],
    ) -> SmolVlmModel:
        """Loads a Hugging Face folder (config.json, safetensors); raises `CheckpointError`. The
        rest: see `Qwen3VLModel.from_folder`."""
        path = folder / "config.json"
        config = read_json(path)
        text = section(config, "text_config", path)
        if text.get("model_type", "llama") != "llama":
            raise CheckpointError.of(path, "text_config.model_type", "'llama'", text["model_type"])
        tied = bool(config.get("tie_word_embeddings", False))
        told = {"max_position_embeddings": 2048, **text}  # what published files may leave out
        dims = Qwen3Dims.from_config(told, path, tied_head=tied, qk_norm=False)
        scale = whole_number({"scale_factor": 2, **config}, path, "scale_factor")
        vision = section(config, "vision_config", path)
        crops = CropDims.from_config(vision, path, scale=scale, out_width=dims.width)
        image_token = placeholder(config, path, "image_token_id", dims.vocab)
        reader = CheckpointReader(folder, **loading)
        source = WeightSource(reader, encoder_dtype)
        with torch.inference_mode():
            eyes = read_crop_weights(source, crops, tower=TOWER, out=OUT, projection="proj")
            weights = read_weights(
                reader, dims, body=BODY, head="lm_head", half_head=True, half=half
            )
        reader.finish(ignore=tied_copy(dims))
        return cls(
            CropEncoder(crops, eyes),
            Qwen3Model(dims, weights),
            image_token,
            end_tokens(folder, config, text),
            source.num_parameters + weights.num_parameters,
        )

    def medium(self, pixels: Any) -> Medium:
        """A crop, [channels, size, size] (float32, numpy), with the number of its placeholders."""
        return Medium.of(pixels, self.encoder.dims.num_tokens)

    @torch.inference_mode()
    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Rows of tokens, each crop's of itself alone: [num_tokens, width]."""
        device = self.encoder.device
        return self.encoder.encode([to_device(m.features, torch.float32, device) for m in media])

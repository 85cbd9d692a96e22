"""Qwen3-VL (Qwen team, 2025): a vision encoder whose tokens a Qwen3 decoder reads among words.

A visual token is one row of several parts: what stands for its placeholder, then what DeepStack
adds behind the decoder's first layers. The parts stay in one tensor from the encoder on, so that
caches, and chunks that end inside a picture, cannot take them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from lookhear.engine.models.layers import Placement, WeightSource
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_weights import Qwen3Dims, read_weights, tied_copy
from lookhear.engine.models.vision_encoder import VisionEncoder
from lookhear.engine.models.vision_weights import VisionDims, read_vision_weights
from lookhear.engine.paged.mrope import Grid, PromptPositions
from lookhear.engine.paged.request import Medium

BODY, TOWER, HEAD = "model.language_model", "model.visual", "lm_head"  # names in the checkpoint


@dataclass(frozen=True, slots=True)
class VLShape:
    """What config.json says of a model that sees, its parts checked against each other."""

    decoder: Qwen3Dims
    encoder: VisionDims
    image_token: int
    video_token: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any], path: Path) -> VLShape:
        """config: the part about this model. path: of the file, named in errors. Raises
        `CheckpointError`."""
        text = section(config, "text_config", path)
        tied = bool(config.get("tie_word_embeddings", False))
        decoder = Qwen3Dims.from_config(text, path, tied_head=tied)
        if decoder.rope_sections is None:
            raise CheckpointError(f"{path}: mrope_section: expected three numbers, got none")
        encoder = VisionDims.from_config(section(config, "vision_config", path), path)
        if encoder.out_width != decoder.width:
            width = f"the decoder's hidden_size ({decoder.width})"
            raise CheckpointError.of(path, "out_hidden_size", width, encoder.out_width)
        if len(encoder.deepstack) > decoder.layers:
            raise CheckpointError(
                f"{path}: deepstack_visual_indexes: expected at most one for each of the decoder's "
                f"{decoder.layers} layers, got {len(encoder.deepstack)}"
            )
        image, video = (
            placeholder(config, path, f"{kind}_token_id", decoder.vocab)
            for kind in ("image", "video")
        )
        return cls(decoder, encoder, image, video)


def placeholder(config: Mapping[str, Any], path: Path, key: str, vocab: int) -> int:
    """The id of a kind of media's; vocab: of the decoder. Raises `CheckpointError`."""
    token = whole_number(config, path, key)
    if token >= vocab:
        raise CheckpointError.of(path, key, f"less than vocab_size ({vocab})", token)
    return token


@dataclass(eq=False)
class Qwen3VLModel:
    """encoder: pixels to rows. decoder: everything else, see `Qwen3Model`.

    image_token, video_token: the placeholders' ids. end_tokens: ids that end an answer.
    """

    encoder: VisionEncoder
    decoder: Qwen3Model
    image_token: int
    video_token: int
    end_tokens: tuple[int, ...]
    num_parameters: int
    tower: Mapping[str, Placement]  # linears of the encoder, see `WeightSource`

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        encoder_dtype: torch.dtype | None = None,
        half: bool = False,
        linears: torch.dtype | None = None,
        kept: Sequence[int] = (),
        **loading: Unpack[Loading],
    ) -> Qwen3VLModel:
        """Loads a Hugging Face folder (config.json, safetensors); raises `CheckpointError`.

        encoder_dtype: of the vision encoder; default: dtype. On a CPU that multiplies bfloat16 in
        hardware, a small checkpoint is fastest with a bfloat16 encoder and a float32 decoder.
        half, linears, kept: see `read_weights`.
        """
        path = folder / "config.json"
        config = read_json(path)
        shape = VLShape.from_config(config, path)
        decoder_dims, vision_dims = shape.decoder, shape.encoder
        reader = CheckpointReader(folder, **loading)
        source = WeightSource(reader, encoder_dtype)
        with torch.inference_mode():
            vision_weights = read_vision_weights(source, vision_dims, TOWER)
            writes = decoder_dims.tied_head or f"{HEAD}.weight" in reader
            head = HEAD if writes else None
            weights = read_weights(
                reader,
                decoder_dims,
                body=BODY,
                head=head,
                half_head=True,
                half=half,
                linears=linears,
                kept=kept,
            )
        reader.finish(ignore=tied_copy(decoder_dims))
        return cls(
            VisionEncoder(vision_dims, vision_weights),
            Qwen3Model(decoder_dims, weights, writes=writes),
            shape.image_token,
            shape.video_token,
            end_tokens(folder, config, config["text_config"]),
            source.num_parameters + weights.num_parameters,
            source.modules,
        )

    def medium(self, pixels: Any) -> Medium:
        """An image or a temporal slice of a video, as `VisionEncoder.encode` takes it (float32,
        numpy), with the number of its placeholders."""
        return picture_medium(self.encoder.dims, pixels)

    def positions(
        self, num_tokens: int, media: Sequence[tuple[int, Medium]] = ()
    ) -> PromptPositions:
        """Of a prompt of so many tokens; media: (first placeholder's place, medium), in order."""
        dims = self.encoder.dims
        grids = [Grid(start, *_grid(dims, m.features.shape), m.time) for start, m in media]
        return PromptPositions.of(num_tokens, grids)

    @torch.inference_mode()
    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Rows of visual tokens, each medium's of itself alone: [num_tokens, parts * width]."""
        return encoded(self.encoder, media)

    @torch.inference_mode()
    def embed(
        self, tokens: Tensor, places: Tensor, visual: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What `Qwen3Model.forward` takes for a step's packed tokens: inputs, added.

        tokens: [n] int64. places: [k] int64, distinct indices into tokens. visual: [k, parts *
        width], what belongs there: a chunk of a prompt takes the rows of its own placeholders only.
        A placeholder's id anywhere else is an ordinary token.
        """
        width = self.decoder.dims.width
        parts = 1 + len(self.encoder.dims.deepstack)
        assert visual.shape == (len(places), parts * width), (visual.shape, places.shape)
        inputs = self.decoder.embed(tokens)
        inputs.index_copy_(0, places, visual[:, :width].to(inputs.dtype))
        return inputs, (places, visual[:, width:])


def picture_medium(dims: VisionDims, pixels: Any) -> Medium:
    """See `Qwen3VLModel.medium`; of whichever process has the encoder."""
    height, width = _grid(dims, pixels.shape)
    return Medium.of(pixels, height * width, (height, width))


def encoded(encoder: VisionEncoder, media: Sequence[Medium]) -> list[Tensor]:
    """See `Qwen3VLModel.encode`."""
    device = encoder.device
    rows = encoder.encode([to_device(m.features, torch.float32, device) for m in media])
    for medium, held in zip(media, rows, strict=True):
        assert len(held) == medium.num_tokens, (held.shape, medium.num_tokens)
    return rows


def _grid(dims: VisionDims, shape: Sequence[int]) -> tuple[int, int]:
    """Tokens down and across of pixels [frames, channels, height, width]."""
    return shape[2] // dims.factor, shape[3] // dims.factor

"""SmolVLM and Idefics3: small models that chat about pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import (
    Family,
    Parts,
    acceleration_of,
    chosen_dtype,
    half_decoder,
)
from lookhear.engine.families.parts.chat import chat_parts
from lookhear.engine.smolvlm.crops import CroppedPictures, CropRules
from lookhear.engine.smolvlm.graphs import CropGraphs
from lookhear.engine.smolvlm.model import SmolVlmModel


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    dtype = chosen_dtype(config.dtype, device, folder)
    model = SmolVlmModel.from_folder(
        folder,
        dtype=dtype,
        # As Qwen3-VL's: the decoder may be small, pictures still are much work.
        encoder_dtype=chosen_dtype(config.dtype, device),
        half=half_decoder(config.dtype, device, folder),
        device=device,
        progress=progress,
    )
    dims = model.encoder.dims
    rules = CropRules.from_folder(folder, dims)
    pictures = CroppedPictures(model.medium, rules, dims.num_tokens, config.max_picture_tokens)
    acceleration = acceleration_of(config, device)
    return chat_parts(
        config,
        folder,
        acceleration,
        model,
        dtype,
        pictures=pictures,
        media_parts=1,
        media_encoder=CropGraphs(model, acceleration) if acceleration.backend else None,
    )


FAMILY = Family(
    name="SmolVLM",
    architectures=("SmolVLMForConditionalGeneration", "Idefics3ForConditionalGeneration"),
    build=build,
    abilities=("chat", "image"),
)

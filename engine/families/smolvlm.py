"""SmolVLM and Idefics3: small models that chat about pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts
from lookhear.engine.families.parts.chat import chat_parts, media_loading
from lookhear.engine.smolvlm.crops import CroppedPictures, CropRules
from lookhear.engine.smolvlm.graphs import crop_graphs
from lookhear.engine.smolvlm.model import SmolVlmModel


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    model = SmolVlmModel.from_folder(folder, **media_loading(config, folder, device, progress))
    dims = model.encoder.dims
    rules = CropRules.from_folder(folder, dims)
    pictures = CroppedPictures(model.medium, rules, dims.num_tokens, config.max_picture_tokens)
    return chat_parts(
        config,
        folder,
        device,
        model,
        pictures=pictures,
        media_parts=1,
        graphs=lambda acceleration: crop_graphs(model, acceleration),
    )


FAMILY = Family(
    name="SmolVLM",
    architectures=("SmolVLMForConditionalGeneration", "Idefics3ForConditionalGeneration"),
    build=build,
    abilities=("chat", "image", "prompt_embeds"),
)

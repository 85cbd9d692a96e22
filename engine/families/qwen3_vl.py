"""Qwen3-VL: a vision encoder and a Qwen3 decoder that chats about what it sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.chat.pictures import PictureEncoder
from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, linear_dtype
from lookhear.engine.families.parts.adapting import adapters_of
from lookhear.engine.families.parts.chat import DRAFTED_BY, chat_parts, media_loading
from lookhear.engine.families.parts.pooling import judging_words
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.vision_graphs import VisionGraphs


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    linears = linear_dtype(config.dtype, device)
    model = Qwen3VLModel.from_folder(
        folder,
        linears=linears,
        kept=judging_words(folder),
        **media_loading(config, folder, device, progress, linears),
    )
    dims = model.encoder.dims
    pictures = PictureEncoder(
        model.medium,
        PixelRules.from_folder(folder, dims).limited(config.max_picture_tokens),
        PixelRules.from_folder(folder, dims, video=True),
        Traits.from_folder(folder).frame_tokens,
    )
    return chat_parts(
        config,
        folder,
        device,
        model,
        linears=linears,
        pictures=pictures,
        media_parts=1 + len(dims.deepstack),
        graphs=lambda acceleration: VisionGraphs(model, acceleration),
        adapters=adapters_of(config, model.decoder, model.encoder, model.tower),
    )


FAMILY = Family(
    name="Qwen3-VL",
    architectures=("Qwen3VLForConditionalGeneration",),
    build=build,
    rounds_cache=True,
    abilities=("chat", "image", "video", "embed", "score", "adapters", "prompt_embeds"),
    drafted_by=DRAFTED_BY,
)

"""Qwen3-VL: a vision encoder and a Qwen3 decoder that chats about what it sees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from lookhear.engine.chat.pictures import PictureEncoder
from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.encoding.desk import EncodingDesk
from lookhear.engine.encoding.qwen3_vl import APART, Qwen3VLLanguage, Qwen3VLTower
from lookhear.engine.encoding.runner import EncodingRunner
from lookhear.engine.families.family import Family, Parts, acceleration_of, linear_dtype
from lookhear.engine.families.parts.adapting import adapters_of
from lookhear.engine.families.parts.chat import (
    DRAFTED_BY,
    ENCODER_BUDGET_TOKENS,
    ENCODER_CACHE_BYTES,
    MediaLoading,
    chat_parts,
    media_loading,
)
from lookhear.engine.families.parts.pooling import judging_words
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.vision_graphs import VisionGraphs
from lookhear.engine.paged.media import MediaEncoder


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    linears = linear_dtype(config.dtype, device)
    loading = media_loading(config, folder, device, progress, linears)
    if config.role == "encoder":
        return _tower(config, folder, device, loading)
    kept = judging_words(folder)
    model: Qwen3VLModel | Qwen3VLLanguage
    graphs: Callable[[Acceleration], MediaEncoder] | None = None
    if config.role == "language":
        model = Qwen3VLLanguage.from_folder(
            folder,
            linears=linears,
            kept=kept,
            dtype=loading["dtype"],
            half=loading["half"],
            device=device,
            progress=progress,
        )
        dims, adapters = model.vision, adapters_of(config, model.decoder)
    else:
        model = Qwen3VLModel.from_folder(folder, linears=linears, kept=kept, **loading)
        dims, graphs = model.encoder.dims, partial(VisionGraphs, model)
        adapters = adapters_of(config, model.decoder, model.encoder, model.tower)
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
        graphs=graphs,
        adapters=adapters,
    )


def _tower(config: EngineConfig, folder: Path, device: str, loading: MediaLoading) -> Parts:
    """Of an engine that is the encoder alone."""
    dtype = loading["encoder_dtype"]
    tower = Qwen3VLTower.from_folder(
        folder, dtype=dtype, device=device, progress=loading["progress"]
    )
    acceleration = acceleration_of(config, device)
    graphs = VisionGraphs(tower, acceleration) if acceleration.backend else None
    return Parts(
        desk=EncodingDesk(config.name),
        runner=EncodingRunner(tower, graphs, ENCODER_CACHE_BYTES),
        num_parameters=tower.num_parameters,
        dtype=dtype,
        encoder_budget=ENCODER_BUDGET_TOKENS,
        lacks=FAMILY.abilities,
    )


FAMILY = Family(
    name="Qwen3-VL",
    architectures=("Qwen3VLForConditionalGeneration",),
    build=build,
    rounds_cache=True,
    abilities=("chat", "image", "video", "embed", "score", "adapters", "prompt_embeds"),
    drafted_by=DRAFTED_BY,
    takes_heads=True,
    apart=APART,
)

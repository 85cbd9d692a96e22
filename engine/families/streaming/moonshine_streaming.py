"""Moonshine's streaming form: what was encoded of a segment is kept while somebody speaks on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, chosen_dtype, half_decoder
from lookhear.engine.families.moonshine import moonshine_parts
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.moonshine.streaming import HOP, StreamingMoonshineModel


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    model = StreamingMoonshineModel.from_folder(
        folder,
        dtype=chosen_dtype(config.dtype, device, folder),
        half=half_decoder(config.dtype, device, folder),
        device=device,
        progress=progress,
    )
    most = model.dims.context * HOP / SAMPLE_RATE
    return moonshine_parts(config, folder, device, model, reach=model.reach, most=most)


FAMILY = Family(
    name="Moonshine-Streaming",
    architectures=("MoonshineStreamingForConditionalGeneration",),
    build=build,
    abilities=("transcribe",),
    card_rows=64,
)

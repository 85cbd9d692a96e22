"""What families have in common whose checkpoints take adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.adapters.desk import AdapterDesk
from lookhear.engine.adapters.parts import AdaptedPart
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.desks import Desks
from lookhear.engine.families.family import Parts
from lookhear.engine.messages import LoadAdapter, UnloadAdapter
from lookhear.engine.models.layers import Placement
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.whisper.model import WhisperModel


def adapters_of(
    config: EngineConfig,
    decoder: Qwen3Model,
    encoder: Any = None,
    tower: Mapping[str, Placement] | None = None,
    renamed: Callable[[str], str] = str,
) -> Adapters | None:
    """encoder, tower: of a model that reads media, and its linears. renamed: what an adapter may
    call a linear instead of its name in the checkpoint. None: none may be loaded."""
    if not config.max_adapters:
        return None

    def named(modules: Mapping[str, Placement]) -> dict[str, Placement]:
        return {**modules, **{renamed(name): place for name, place in modules.items()}}

    part = None
    if encoder is not None and tower is not None:
        part = AdaptedPart(encoder, named(tower), encoder.dtype, decoder.device)
    main = AdaptedPart(decoder, named(decoder.weights.modules), decoder.dtype, decoder.device)
    return Adapters(config.name, main, part, config.max_adapters, config.max_adapter_rank)


def adapters_of_one(config: EngineConfig, model: WhisperModel) -> Adapters | None:
    """Of a model that is one part: what is heard and what is written are adapted alike."""
    if not config.max_adapters:
        return None
    dtype = torch.float32 if model.device.type == "cpu" else model.dtype
    part = AdaptedPart(model, model.weights.modules, dtype, model.device)
    return Adapters(config.name, part, part, config.max_adapters, config.max_adapter_rank)


def with_adapters(parts: Parts, adapters: Adapters | None) -> Parts:
    """With a desk that loads them; without, it lacks the ability."""
    if adapters is None:
        return replace(parts, lacks=(*parts.lacks, "adapters"))
    desk = AdapterDesk(adapters)
    return replace(parts, desk=Desks(parts.desk, {LoadAdapter: desk, UnloadAdapter: desk}))

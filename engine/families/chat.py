"""Checkpoints that chat: their runners, caches and budgets, sized by a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from lookhear.engine.chat.desk import ChatDesk
from lookhear.engine.chat.generation import GenerationDefaults
from lookhear.engine.chat.pictures import Eyes
from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.chat.template import ChatTemplate
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.families.parts import Parts, chosen_dtype, half_decoder
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_chat import Qwen3ChatModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.qwen3_vl_pixels import PixelRules
from lookhear.engine.models.vision_graphs import VisionGraphs
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.runner import MediaEncoder, PagedModel, PagedRunner
from lookhear.engine.tokenizers.qwen import QwenTokenizer

# Embeddings of pictures that no block of the cache has any more; a token of them is wide.
ENCODER_CACHE_BYTES = 128 * 2**20
# Visual tokens encoded in one step at most, unless a single request has more.
ENCODER_BUDGET_TOKENS = 2048


class Sight(NamedTuple):
    """Of a model that sees. parts, encoder: media_parts and media_encoder of its `PagedRunner`."""

    eyes: Eyes | None
    parts: int
    encoder: MediaEncoder | None


def build_qwen3(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """Qwen3, text only."""
    dtype = chosen_dtype(config.dtype, device, folder)
    half = half_decoder(config.dtype, device, folder)
    model = Qwen3ChatModel.from_folder(
        folder, dtype=dtype, half=half, device=device, progress=progress
    )
    return _parts(
        config,
        folder,
        Acceleration.of(config, device),
        model,
        model.decoder,
        Sight(None, 0, None),
        dtype,
        model.num_parameters,
    )


def build_qwen3_vl(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    dtype = chosen_dtype(config.dtype, device, folder)
    # Where the decoder stays in float32 because it is small, pictures still are much work.
    encoder_dtype = chosen_dtype(config.dtype, device)
    model = Qwen3VLModel.from_folder(
        folder,
        dtype=dtype,
        encoder_dtype=encoder_dtype,
        half=half_decoder(config.dtype, device, folder),
        device=device,
        progress=progress,
    )
    dims = model.encoder.dims
    eyes = Eyes(
        model.medium,
        PixelRules.from_folder(folder, dims).limited(config.max_picture_tokens),
        PixelRules.from_folder(folder, dims, video=True),
        Traits.from_folder(folder).frame_tokens,
    )
    acceleration = Acceleration.of(config, device)
    sight = Sight(
        eyes,
        1 + len(dims.deepstack),
        VisionGraphs(model, acceleration) if acceleration.backend else None,
    )
    return _parts(
        config, folder, acceleration, model, model.decoder, sight, dtype, model.num_parameters
    )


def _parts(
    config: EngineConfig,
    folder: Path,
    acceleration: Acceleration,
    model: PagedModel,
    decoder: Qwen3Model,
    sight: Sight,
    dtype: torch.dtype,
    num_parameters: int,
) -> Parts:
    context = min(config.max_context_tokens, decoder.dims.context)
    runner = PagedRunner(
        model,
        max_rows=config.max_rows,
        num_blocks=_num_blocks(config, decoder, context),
        max_context=context,
        encoder_bytes=ENCODER_CACHE_BYTES,
        media_parts=sight.parts,
        media_encoder=sight.encoder,
        acceleration=acceleration,
    )
    tokenizer = QwenTokenizer.from_folder(folder)
    desk = ChatDesk(
        config.name,
        ChatPrompter(tokenizer, ChatTemplate.from_folder(folder), sight.eyes, context),
        GenerationDefaults.from_folder(folder),
        model.end_tokens,
        decoder.dims.vocab,
        max_answer=config.max_answer_tokens,
        max_answers=config.max_answers,
    )
    return Parts(
        desk=desk,
        runner=runner,
        num_parameters=num_parameters,
        dtype=dtype,
        encoder_budget=ENCODER_BUDGET_TOKENS,
        abilities=["chat", *(["image", "video"] if sight.eyes is not None else [])],
        context_tokens=context,
    )


def _num_blocks(config: EngineConfig, decoder: Qwen3Model, context: int) -> int:
    """As many as the memory allows, but no more than are of use: prompts are seldom as long as they
    may be, so what half of the rows could need leaves room for what sessions come back to."""
    dims = decoder.dims
    element = torch.empty(0, dtype=decoder.dtype).element_size()
    block_bytes = 2 * BLOCK_TOKENS * dims.layers * dims.kv_heads * dims.head_dim * element
    longest = math.ceil(context / BLOCK_TOKENS)
    useful = max(2, config.max_rows // 2) * longest
    return 1 + max(longest, min(useful, int(config.kv_cache_gigabytes * 2**30) // block_bytes))

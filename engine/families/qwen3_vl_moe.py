"""Qwen3-VL of experts: the vision encoder is a dense one's, of the decoder a token reads a few."""

from __future__ import annotations

from lookhear.engine.encoding.qwen3_vl import APART
from lookhear.engine.families import qwen3_vl
from lookhear.engine.families.family import Family
from lookhear.engine.families.parts.chat import DRAFTED_BY

FAMILY = Family(
    name="Qwen3-VL-MoE",
    architectures=("Qwen3VLMoeForConditionalGeneration",),
    build=qwen3_vl.build,
    rounds_cache=True,
    abilities=("chat", "image", "video", "embed", "score", "adapters", "prompt_embeds"),
    drafted_by=DRAFTED_BY,
    takes_heads=True,
    apart=APART,
)

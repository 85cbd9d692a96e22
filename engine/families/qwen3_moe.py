"""Qwen3 of experts, text only: of each layer's, a token goes through a few."""

from __future__ import annotations

from lookhear.engine.families import qwen3
from lookhear.engine.families.family import Family
from lookhear.engine.families.parts.chat import DRAFTED_BY

FAMILY = Family(
    name="Qwen3-MoE",
    architectures=("Qwen3MoeForCausalLM",),
    build=qwen3.build,
    rounds_cache=True,
    abilities=("chat", "embed", "score", "adapters", "prompt_embeds"),
    drafted_by=DRAFTED_BY,
    takes_heads=True,
)

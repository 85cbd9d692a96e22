"""Qwen3 without a head that writes: it makes vectors, or has learnt to score."""

from __future__ import annotations

from lookhear.engine.families import qwen3
from lookhear.engine.families.family import Family

FAMILY = Family(
    name="Qwen3-Embedding",
    architectures=("Qwen3Model", "Qwen3ForSequenceClassification"),
    build=qwen3.build,
    abilities=("embed", "score", "adapters", "prompt_embeds"),
)

"""Which tokens end an answer, by a checkpoint's own word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, read_json

QWEN_ENDS = (151_645, 151_643)  # <|im_end|>, <|endoftext|>


def end_tokens(
    folder: Path, *configs: Mapping[str, Any], default: tuple[int, ...] = QWEN_ENDS
) -> tuple[int, ...]:
    """Of generation_config.json, or of the first config that has them, or the default.

    configs: config.json, or parts of it. Raises `CheckpointError`.
    """
    generation = read_json(folder / "generation_config.json", required=False)
    for holder in (generation, *configs):
        value = holder.get("eos_token_id")
        if value is None:
            continue
        ids = value if isinstance(value, list) else [value]
        if not (ids and all(type(i) is int and i >= 0 for i in ids)):
            raise CheckpointError.of(folder, "eos_token_id", "token ids", value)
        return tuple(ids)
    return default

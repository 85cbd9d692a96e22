"""What a checkpoint says of itself to our engine alone, in an optional `lookhear.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError, read_json


@dataclass(frozen=True, slots=True)
class Traits:
    """short_windows: the encoder was trained on windows shorter than the published 30 s.
    longest_window_seconds: and on none longer than this (Qwen3-ASR: the longest clip it was trained
    on). carries_text: earlier text in the prompt helps it (openai/whisper's
    `condition_on_previous_text`). frame_tokens: of one frame of a video that goes on, at most.
    """

    short_windows: bool = False
    longest_window_seconds: float | None = None
    carries_text: bool = True
    frame_tokens: int = 256

    @classmethod
    def from_folder(cls, folder: Path) -> Traits:
        """Defaults where the file or a field is missing; raises `CheckpointError`."""
        path = folder / "lookhear.json"
        data = read_json(path, required=False)
        for name in ("short_windows", "carries_text"):
            if not isinstance(data.get(name, False), bool):
                raise CheckpointError(f"{path}: {name}: expected true or false, got {data[name]!r}")
        longest = data.get("longest_window_seconds")
        if longest is not None and not (isinstance(longest, int | float) and 4 <= longest <= 120):
            raise CheckpointError(
                f"{path}: longest_window_seconds: expected 4 to 120, got {longest!r}"
            )
        tokens = data.get("frame_tokens", cls().frame_tokens)
        if type(tokens) is not int or tokens < 1:
            raise CheckpointError(f"{path}: frame_tokens: expected 1 or more, got {tokens!r}")
        return cls(
            data.get("short_windows", cls().short_windows),
            longest,
            data.get("carries_text", True),
            tokens,
        )

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
    toy: it knows a small closed world, and what it writes of anything else means nothing.
    evidence_seconds: of new audio during which a word must have been heard alike to be committed;
    None: what suits the kind of model.
    """

    short_windows: bool = False
    longest_window_seconds: float | None = None
    carries_text: bool = True
    frame_tokens: int = 256
    toy: bool = False
    evidence_seconds: float | None = None

    @classmethod
    def from_folder(cls, folder: Path) -> Traits:
        """Defaults where the file or a field is missing; raises `CheckpointError`."""
        path = folder / "lookhear.json"
        data = read_json(path, required=False)
        for name in ("short_windows", "carries_text", "toy"):
            if not isinstance(data.get(name, False), bool):
                raise CheckpointError.of(path, name, "true or false", data[name])
        longest = data.get("longest_window_seconds")
        if longest is not None and not (isinstance(longest, int | float) and 4 <= longest <= 120):
            raise CheckpointError.of(path, "longest_window_seconds", "4 to 120", longest)
        evidence = data.get("evidence_seconds")
        if evidence is not None and not (isinstance(evidence, int | float) and 0 <= evidence <= 10):
            raise CheckpointError.of(path, "evidence_seconds", "0 to 10", evidence)
        tokens = data.get("frame_tokens", cls().frame_tokens)
        if type(tokens) is not int or tokens < 1:
            raise CheckpointError.of(path, "frame_tokens", "1 or more", tokens)
        return cls(
            data.get("short_windows", cls().short_windows),
            longest,
            data.get("carries_text", True),
            tokens,
            data.get("toy", False),
            evidence,
        )

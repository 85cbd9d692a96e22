"""A core on a random Qwen3-VL, and asking it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerText,
    ChatMessage,
    Event,
    HoldPicture,
    ImagePart,
    Part,
    StartAnswer,
    TextPart,
)
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

WIDE = 4096  # tokens of context


def build_wide(folder: Path) -> Path:
    """A Qwen3-VL of random weights with room for the longest answers. Returns the folder."""
    build_served_qwen3_vl(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["text_config"]["max_position_embeddings"] = WIDE
    path.write_text(json.dumps(config))
    return folder


def make_core(folder: Path, **changes: object) -> EngineCore:
    values: dict[str, object] = {
        "model": str(folder),
        "threads": 1,
        "served_name": "m",
        "dtype": "float32",
    }
    config = EngineConfig(**{**values, **changes})  # type: ignore[arg-type]
    return build_core(config, lambda stage, share: None).core


def settings(**changes: object) -> AnswerSettings:
    return AnswerSettings(**{"model": "m", "max_tokens": 8, **changes})  # type: ignore[arg-type]


def pixels(seed: int, height: int = 40, width: int = 56) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def hold(name: str, seed: int, session: str = "s", **size: int) -> HoldPicture:
    return HoldPicture(session, "m", name, pixels(seed, **size))


def user(*parts: Part | str) -> ChatMessage:
    return ChatMessage("user", [TextPart(p) if isinstance(p, str) else p for p in parts])


def image(name: str, detail: str = "auto") -> ImagePart:
    return ImagePart(name, detail)


def ask(
    *messages: ChatMessage, answer: str = "a", session: str = "s", **changes: Any
) -> StartAnswer:
    return StartAnswer(session, answer, settings(**changes), list(messages))


def rest(core: EngineCore) -> list[Event]:
    """Steps until there is nothing to do."""
    events: list[Event] = []
    while core.has_work:
        events += core.step()
        core.check()
    return events


def outcome(events: list[Event], answer: str = "a") -> AnswerCompleted | AnswerFailed:
    (last,) = [
        e for e in events if isinstance(e, AnswerCompleted | AnswerFailed) and e.answer == answer
    ]
    return last


def text(events: list[Event], answer: str = "a") -> str:
    return "".join(
        e.text
        for e in events
        if isinstance(e, AnswerText) and e.answer == answer and not e.is_reasoning
    )

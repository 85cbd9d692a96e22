"""Scripts of messages for a whole core, and playing them to the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
)
from lookhear.engine.qwen3_asr.timed_runner import TimedRunner


def make_core(folder: Path, **changes: object) -> EngineCore:
    """Segments short enough for the context of the test checkpoint."""
    values: dict[str, object] = {"model": str(folder), "threads": 1, "max_segment_seconds": 6.0}
    config = EngineConfig(**{**values, **changes})  # type: ignore[arg-type]
    return build_core(config, lambda stage, share: None).core


def wanted(**changes: object) -> TranscriptionSettings:
    return TranscriptionSettings(model="m", **changes)  # type: ignore[arg-type]


def noise(seed: int, seconds: float) -> np.ndarray:
    loud = np.random.default_rng(seed).normal(size=round(seconds * SAMPLE_RATE)) * 0.1
    return loud.astype(np.float32)


def turn(
    session: str, seed: int, seconds: float = 3.0, piece: float = 0.5, **changes: object
) -> list[Message]:
    """A turn's messages: audio in pieces, all of it voiced."""
    samples, step = noise(seed, seconds), round(piece * SAMPLE_RATE)
    messages: list[Message] = [StartTurn(session, "t", wanted(**changes))]
    for start in range(0, len(samples), step):
        part = samples[start : start + step]
        messages.append(AppendAudio(session, "t", part, start + len(part)))
    return [*messages, EndTurn(session, "t")]


def speech_between_silence(session: str, **changes: object) -> list[Message]:
    """4 s of silence, 3 s of speech, 6 s of silence, 3 s of speech, all of it noise."""
    samples, messages = noise(6, 16.0), list[Message]([StartTurn(session, "t", wanted(**changes))])
    for start in range(0, len(samples), 1600):
        end, voiced = start + 1600, 0
        for first, last in ((4.0, 7.0), (13.0, 16.0)):
            if end > first * SAMPLE_RATE:
                voiced = min(end, round(last * SAMPLE_RATE))
        messages.append(AppendAudio(session, "t", samples[start:end], voiced))
    return [*messages, EndTurn(session, "t")]


def file(name: str, seed: int, seconds: float, **changes: object) -> list[Message]:
    return [TranscribeFile(name, wanted(**changes), noise(seed, seconds))]


def drain(core: EngineCore) -> list[Event]:
    events: list[Event] = []
    for _ in range(10_000):
        if not core.has_work:
            core.check()
            return events
        events += core.step()
        core.check()
    raise AssertionError("the engine never comes to rest")


def play(core: EngineCore, *scripts: list[Message]) -> list[Event]:
    """Send the scripts side by side, one message of each and then all steps there are to do."""
    events: list[Event] = []
    for i in range(max(map(len, scripts))):
        for messages in scripts:
            if i < len(messages):
                core.submit(messages[i])
        events += drain(core)
    return events


def outcome(events: list[Event], name: str) -> tuple[str, ...]:
    """The texts of a session or file, in order; the completed one last."""
    mine = [e for e in events if name in (getattr(e, "session", ""), getattr(e, "request", ""))]
    if isinstance(mine[-1], FileTranscribed):
        return (*(segment.text for segment in mine[-1].segments), mine[-1].text)
    (done,) = [e for e in mine if isinstance(e, TurnCompleted)]
    said = [e.text for e in mine if isinstance(e, TextCommitted)]
    assert "".join(said) == done.text and mine[-1] is done
    return (*said, done.text)


def all_free(core: EngineCore) -> bool:
    """Whether nobody owns a block: those not free are merely cached."""
    stats = core.stats()
    runner = core._runner
    paged = runner._paged if isinstance(runner, TimedRunner) else runner
    total: int = paged._pool.num_blocks - 1  # type: ignore[union-attr]
    return stats["free_blocks"] + stats["cached_blocks"] == total

"""A real Whisper and recordings of people, where they can be had; else the tests say why not.

Both are downloaded once, checked by their hashes, and kept in the user's cache.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.in_process.simulation import Simulation
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import held_out_sessions
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.errors import SourceError

MODEL = "openai/whisper-tiny.en"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("real")


def _skip_if_away(error: Exception) -> None:
    """Only where nothing can be fetched. What came and is not what was expected is a failure."""
    if not any(word in str(error) for word in ("expected", "hash", "SHA")):
        pytest.skip(f"no real weights or voices here: {error}")


@pytest.fixture(scope="session")
def model() -> str:
    """As people name it."""
    return MODEL


@pytest.fixture(scope="session")
def checkpoint(model: str) -> Path:
    """The folder of the model, or a view of what others call one."""
    try:
        return resolve_checkpoint(model, lambda stage, share: None)
    except CheckpointError as error:
        _skip_if_away(error)
        raise


@pytest.fixture(scope="session")
def utterances() -> list[Session]:
    """Each a recording of somebody, English, 2 to 15 s, with its text."""
    try:
        said = held_out_sessions(HUMAN)
    except SourceError as error:
        _skip_if_away(error)
        raise
    return [session for session in said if session.language == "en"]


@pytest.fixture(scope="session")
def simulation(model: str, checkpoint: Path) -> Simulation:
    """The model as it is served, live sessions on the audio's own clock."""
    built = build_core(EngineConfig(model=model, threads=1), lambda stage, share: None)
    return Simulation(built.core, built.card)

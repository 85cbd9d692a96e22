from __future__ import annotations

from pathlib import Path

import pytest

from tools.random_checkpoints.qwen3 import build_served_qwen3_asr


@pytest.fixture(scope="session")
def served_asr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Qwen3-ASR with windows of two seconds and a context of 512 tokens.
    Shared: copy it before you change anything."""
    folder = tmp_path_factory.mktemp("served-asr")
    build_served_qwen3_asr(folder, seed=5)
    return folder

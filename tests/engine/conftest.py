from __future__ import annotations

from pathlib import Path

import pytest

from tools.random_checkpoints.qwen3 import build_random_qwen3_aligner, build_served_qwen3_asr


@pytest.fixture(scope="session")
def served_asr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Qwen3-ASR with windows of two seconds and a context of 512 tokens.
    Shared: copy it before you change anything."""
    folder = tmp_path_factory.mktemp("served-asr")
    build_served_qwen3_asr(folder, seed=5)
    return folder


@pytest.fixture(scope="session")
def served_aligner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random aligner that tells 25 times apart, 2 s. Shared, too."""
    folder = tmp_path_factory.mktemp("served-aligner")
    build_random_qwen3_aligner(folder, seed=1, labels=25)
    return folder

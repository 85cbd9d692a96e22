"""An aligner is told from the model whose words it times, and fits it or says why not."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.families.qwen3_aligner import ARCHITECTURE, is_aligner
from tests.engine.playing import make_core
from tools.random_checkpoints.whisper import build_random_whisper

ASR = "Qwen3ASRForConditionalGeneration"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"architectures": [ARCHITECTURE]}, True),
        ({"architectures": [ASR], "thinker_config": {"classify_num": 5000}}, True),
        (
            {"thinker_config": {"classify_num": 5, "model_type": "qwen3_forced_aligner"}},
            True,
        ),
        # transformers and the original write these for every Qwen3-ASR.
        ({"architectures": [ASR], "timestamp_token_id": 151_705}, False),
        ({"architectures": [ASR], "thinker_config": {"classify_num": None}}, False),
        ({"thinker_config": {"classify_num": 5000, "model_type": "qwen3_asr"}}, False),
        ({"architectures": None}, False),
    ],
)
def test_which_it_is(tmp_path: Path, config: dict[str, Any], expected: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_aligner(tmp_path) is expected


def test_a_vocabulary_of_another_marker_is_refused(
    served_asr: Path, served_aligner: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(served_aligner, other)
    config = json.loads((other / "config.json").read_text())
    config["timestamp_token_id"] -= 1
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="timestamp_token_id: expected .* <timestamp>"):
        make_core(served_asr, aligner=str(other))


def test_a_toy_beside_another_model_is_told(
    served_asr: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        make_core(served_asr, aligner="demo-qwen3-aligner")
        assert "demo-qwen3-aligner is a toy" in caplog.text
        caplog.clear()
        make_core(Path("demo-qwen3-asr"), aligner="demo-qwen3-aligner")
    assert "toy" not in caplog.text


def test_a_model_that_takes_none_is_served_and_that_is_told(
    served_aligner: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = build_random_whisper(tmp_path)
    with caplog.at_level(logging.WARNING):
        make_core(folder, aligner=str(served_aligner))
    assert "is a Whisper, which takes none" in caplog.text
